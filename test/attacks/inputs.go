package attacks

const (
	layers    = "image TestHostileLayers/"
	platforms = "image TestHostilePlatforms/"
	manifests = "image TestHostileManifests/"
	registry  = "image TestHostileRegistry/"
	inYAML    = "yaml TestHostile/"
	commands  = "cmd/berth TestHostileYAML/"
)

const (
	noSparse  = "sparse files are refused, in all four forms"
	budget    = "what is read out of an image counts, after decompression, whether anybody asked for it or not"
	expansion = "a document may become 16 times as long by its aliases; the finding is at the alias"
)

var onInputs = []Attack{
	{"make 300 MiB of 3 KB with a sparse file in a layer, as GNU tar's old format has it", noSparse, layers + "a_sparse_file_of_GNU_tar"},
	{"the same with a sparse file of pax 0.0", noSparse, layers + "a_sparse_file_of_pax_0.0"},
	{"the same with a sparse file of pax 0.1", noSparse, layers + "a_sparse_file_of_pax_0.1"},
	{"the same with a sparse file of pax 1.0", noSparse, layers + "a_sparse_file_of_pax_1.0"},
	{"put a file into a layer that is large once it is unpacked", budget, layers + "a_large_file"},
	{"the same with zstd", budget, layers + "a_large_file_in_zstd"},
	{"put it where nobody looks", budget, layers + "a_large_file_that_nobody_asked_for"},
	{"put much behind the end of the archive", budget, layers + "much_behind_the_archive"},
	{"have zstd ask for a window of 512 MiB", "a window may have the 8 MiB that every decoder offers", layers + "a_large_window_of_zstd"},
	{"give entries names of 200 kB", "names have at most 1,024 bytes and 32 folders", layers + "very_long_names"},
	{"have thousands of files and removals compared with each other", "each name is looked up, so that time grows with their number alone", "image TestPullTakesLinearTime"},
	{"give a file a name with control characters", "such names are refused, and quoted in what is said of them", layers + "control_characters_in_a_name"},
	{"leave the folder by a name with `..`", "such names are refused", layers + "a_name_that_leads_out"},
	{"put a file below a symbolic link, so that it is elsewhere than its name says", "nothing may lie below a link, in the same layer or an upper one", layers + "a_file_below_a_link_of_another_layer"},
	{"put a symbolic link for a file", "folders that are read hold files and folders only", layers + "a_symbolic_link"},
	{"put a hard link for a file", "folders that are read hold files and folders only", layers + "a_hard_link"},
	{"put a device for a file, which overlay file systems take for a removal", "folders that are read hold files and folders only", layers + "a_device,_which_some_take_for_a_removal"},
	{"have the same file twice in a layer", "a layer has each file once", layers + "a_file_twice"},
	{"hide files by an attribute of overlay file systems", "entries with one are refused", layers + "an_attribute_of_overlay_file_systems"},
	{"have other files for a platform that nobody looks at", "the images for all platforms are read and compared", platforms + "another_file"},
	{"have them for no platform", "the images for all platforms are read and compared", platforms + "another_file_for_no_platform"},
	{"hide a platform in a list of images within the list", "such lists are refused", platforms + "an_index_in_the_index"},
	{"list very many images", "a list has at most 64", platforms + "too_many_images"},
	{"have requests sent elsewhere by `urls` of a layer", "layers with URLs are refused; no request is sent", manifests + "a_layer_with_urls"},
	{"have them sent because the registry lacks the layer", "layers with URLs are refused; no request is sent", manifests + "a_layer_with_urls_that_the_registry_lacks"},
	{"use a manifest that is both an image and a list of images", "such manifests are refused", manifests + "a_list_of_images,_too"},
	{"tell another size of a layer than it has", "sizes and digests are checked", manifests + "a_layer_that_is_shorter_than_said"},
	{"send a layer very slowly", "a pull has one limit of time, for all of it", registry + "slow_with_a_layer"},
	{"never end an answer that is no layer", "such answers have at most 4 MiB", registry + "an_endless_error"},
	{"send another layer than the manifest's", "digests are checked", registry + "another_layer"},
	{"send a client on to its cloud's credentials", "addresses of one link, and of this machine, are never connected to", registry + "on_to_the_cloud's_credentials"},
	{"send it there for a token", "addresses of one link, and of this machine, are never connected to", registry + "for_a_token_to_the_cloud's_credentials"},
	{"make 98 MB of 100 kB of YAML, with a thousand aliases of one long string", expansion, inYAML + "long-string"},
	{"do so with aliases of aliases", expansion, inYAML + "laughs"},
	{"do so with merged mappings", expansion, inYAML + "merges"},
	{"have mappings merged very often that add nothing", "the decoder follows so many aliases only", inYAML + "merged-lists"},
	{"nest values deeply", "values nest at most 500 levels deep", inYAML + "nested-sequences"},
	{"fill memory with millions of values of two bytes", "a document holds at most half a million", "yaml TestManyValues/flow"},
	{"do so in a catalog that is validated", expansion, commands + "validate"},
	{"do so in one that is compared", expansion, commands + "diff"},
	{"do so in one that is drawn", expansion, commands + "graph"},
	{"do so in one that is served", expansion, commands + "serve"},
	{"do so in one that is rendered", expansion, commands + "render"},
	{"do so in one that an image is made of", expansion, commands + "make_an_image_of_a_catalog"},
	{"do so in an object that a bundle carries", expansion, commands + "validate_a_bundle's_object"},
	{"do so in a manifest of a bundle that a catalog is built from", expansion, commands + "build_from_a_bundle's_manifest"},
	{"do so in a template", expansion, commands + "build_from_a_template"},
	{"do so in a bundle's folder that no bundle has, but that validators read", expansion, commands + "validate_a_bundle_with_something_else"},
	{"put a pipe into a catalog, which never ends", "only regular files are read", "fbc TestReadRefusesPipes"},
	{"link a bundle's file to a device", "only regular files are read, up to 32 MiB", "yaml TestReadFile"},
	{"link a catalog's or bundle's file to a secret elsewhere, to be quoted in a report or shipped", "links are followed within the folder only", "cmd/berth TestScripts/image"},
}
