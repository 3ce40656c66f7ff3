package trials

// The tests that read input of strangers.
const (
	layers    = "internal/oci TestHostileLayers/"
	platforms = "internal/oci TestHostilePlatforms/"
	manifests = "internal/oci TestHostileManifests/"
	registry  = "internal/oci TestHostileRegistry/"
	inYAML    = "internal/boundedyaml TestHostile/"
	commands  = "cmd/berth TestHostileYAML/"
)

const (
	noSparse  = "sparse files are refused, in all four formats"
	budget    = "the size limit covers everything read from an image, after decompression, whether it is needed or not"
	expansion = "aliases may expand a document to 16 times its length at most; the finding points at the alias"
)

// onInputs are attacks with bundles, catalogs, images and YAML.
var onInputs = []Attack{
	{"expand 3 KB to 300 MiB with a sparse file in a layer, in GNU tar's old format", noSparse, layers + "a_sparse_file_of_GNU_tar"},
	{"the same in the sparse format pax 0.0", noSparse, layers + "a_sparse_file_of_pax_0.0"},
	{"the same in the sparse format pax 0.1", noSparse, layers + "a_sparse_file_of_pax_0.1"},
	{"the same in the sparse format pax 1.0", noSparse, layers + "a_sparse_file_of_pax_1.0"},
	{"put a file into a layer that is large after decompression", budget, layers + "a_large_file"},
	{"the same with zstd", budget, layers + "a_large_file_in_zstd"},
	{"put it where nothing reads it", budget, layers + "a_large_file_that_nobody_asked_for"},
	{"append much data after the end of the archive", budget, layers + "much_behind_the_archive"},
	{"make zstd require a window of 512 MiB", "a window is at most 8 MiB, which every decoder supports", layers + "a_large_window_of_zstd"},
	{"give entries names of 200 kB", "names are limited to 1,024 bytes and 32 folders", layers + "very_long_names"},
	{"make the reader compare thousands of files and removals with each other", "each name is looked up in a map, so the time is linear", "internal/oci TestPullTakesLinearTime"},
	{"give a file a name with control characters", "such names are refused, and quoted in the message", layers + "control_characters_in_a_name"},
	{"leave the folder with a name that contains `..`", "such names are refused", layers + "a_name_that_leads_out"},
	{"put a file below a symbolic link, so that it ends up elsewhere", "nothing may be below a link, in the same layer or a later one", layers + "a_file_below_a_link_of_another_layer"},
	{"put a symbolic link in place of a file", "the folders that are read may contain only files and folders", layers + "a_symbolic_link"},
	{"put a hard link in place of a file", "the folders that are read may contain only files and folders", layers + "a_hard_link"},
	{"put a device in place of a file, which overlay file systems treat as a removal", "the folders that are read may contain only files and folders", layers + "a_device,_which_some_take_for_a_removal"},
	{"put the same file into a layer twice", "a layer may contain each file only once", layers + "a_file_twice"},
	{"hide files with an attribute of overlay file systems", "entries with such an attribute are refused", layers + "an_attribute_of_overlay_file_systems"},
	{"put different files into the image for a platform that nobody checks", "the images for all platforms are read and compared", platforms + "another_file"},
	{"put them into an image for no platform", "the images for all platforms are read and compared", platforms + "another_file_for_no_platform"},
	{"hide a platform in an image index within the index", "nested indexes are refused", platforms + "an_index_in_the_index"},
	{"list very many images in an index", "an index is limited to 64", platforms + "too_many_images"},
	{"redirect requests with the `urls` of a layer", "layers with URLs are refused; no request is sent", manifests + "a_layer_with_urls"},
	{"redirect them because the registry lacks the layer", "layers with URLs are refused; no request is sent", manifests + "a_layer_with_urls_that_the_registry_lacks"},
	{"use a manifest that is both an image and an image index", "such manifests are refused", manifests + "a_list_of_images,_too"},
	{"declare a wrong size for a layer", "sizes and digests are checked", manifests + "a_layer_that_is_shorter_than_said"},
	{"send a layer very slowly", "a pull has one timeout for everything", registry + "slow_with_a_layer"},
	{"never end a response that is not a layer", "such responses are limited to 4 MiB, and error responses to 16 KiB", registry + "an_endless_manifest"},
	{"send an error message of a megabyte, for each of very many images", "as above", registry + "an_endless_error"},
	{"send a different layer than the manifest's", "digests are checked", registry + "another_layer"},
	{"redirect a client to its cloud's credentials", "connections to link-local addresses, to loopback and to cloud metadata services are refused", registry + "on_to_the_cloud's_credentials"},
	{"redirect it there for a token", "connections to link-local addresses, to loopback and to cloud metadata services are refused", registry + "for_a_token_to_the_cloud's_credentials"},
	{"expand 100 kB of YAML to 98 MB, with a thousand aliases of one long string", expansion, inYAML + "long-string"},
	{"the same with aliases of aliases", expansion, inYAML + "laughs"},
	{"the same with merged mappings", expansion, inYAML + "merges"},
	{"merge mappings that add nothing, very often", "the decoder limits the number of aliases that it follows", inYAML + "merged-lists"},
	{"nest values deeply", "nesting is limited to 500 levels", inYAML + "nested-sequences"},
	{"fill memory with millions of values of two bytes", "a document is limited to half a million values", "internal/boundedyaml TestManyValues/flow"},
	{"expand YAML in a catalog that is validated", expansion, commands + "validate"},
	{"the same in a catalog that is compared", expansion, commands + "diff"},
	{"the same in a catalog that is drawn", expansion, commands + "graph"},
	{"the same in a catalog that is served", expansion, commands + "serve"},
	{"the same in a catalog that is rendered", expansion, commands + "render"},
	{"the same in a catalog that is packed into an image", expansion, commands + "make_an_image_of_a_catalog"},
	{"the same in an object of a bundle", expansion, commands + "validate_a_bundle's_object"},
	{"the same in a manifest of a bundle from which a catalog is built", expansion, commands + "build_from_a_bundle's_manifest"},
	{"the same in a template", expansion, commands + "build_from_a_template"},
	{"the same in a folder that is not part of a bundle, but that validators read", expansion, commands + "validate_a_bundle_with_something_else"},
	{"put a pipe into a catalog, which blocks forever", "only regular files are read", "catalog/fbc TestReadRefusesPipes"},
	{"link a bundle's file to a device", "only regular files are read, up to 32 MiB", "internal/boundedyaml TestReadFile"},
	{"link a file of a catalog or bundle to a secret elsewhere, so that a report quotes it or an image ships it", "links are followed only within the folder", "cmd/berth TestScripts/image"},
}
