package trials

// onCatalogs are attacks by the authors of catalogs, and by registries.
var onCatalogs = []Attack{
	{"with images of another registry, replace the image of another catalog in a mirror, base images, and signatures", "each registry has a place of its own below the path of a mirror; the catalog's own image has another one", "catalog/mirror TestOthersStay"},
	{"call a registry so that its place is that of another one", "no name of a host has two underscores, which stand for the colon before a port", "internal/oci TestPlaces"},
	{"move a tag in a mirror that another catalog has set, or the tag of the catalog itself", "a tag is moved by the catalog that has set it, which the mirror records before it does, or if the user names the tag", "catalog/mirror TestTagsStay"},
	{"have a mirror ask registries at loopback, metadata and private addresses, by the names in a catalog or by redirects", "a catalog from a registry may name none, except for its own and those that the user names; the address is checked when it is connected to", "internal/oci TestStrangersRegistries"},
	{"send an image a few bytes at a time, so that a mirror never ends", "there is a time for each image, and others are copied meanwhile", "catalog/mirror TestOneBadImage"},
	{"send the answer to any request so slowly that a command never ends", "an answer that comes at less than 1 KiB a second ends after 30 seconds", "internal/oci TestSlowBody"},
	{"have a token server at an address like that of a layer, and never end its answer", "the limit of an answer follows what the request is for", registry + "an_endless_token,_at_an_address_like_that_of_a_layer"},
	{"call a repository `blobs`, and never end its manifests and lists", "the limit of an answer follows what the request is for", "internal/oci TestLayerAnswers"},
	{"list very many images in a few kilobytes of a manifest", "values are counted before there is room for them", registry + "very_many_images_in_few_bytes"},
	{"list very many images in a few kilobytes of a folder's index.json", "it is read one image at a time, and each is checked", "internal/oci TestManyInIndex"},
	{"make a comparison of catalogs, or a check against another one, take the cube of the entries of a channel", "what becomes of an entry is computed once", "cmd/berth TestCosts/catalog_diff/chain"},
	{"make a drawing take the square of the entries of a channel in memory", "edges of skipRanges are limited to 20,000 for each channel and 300,000 for each page; the drawing says so", "cmd/berth TestCosts/catalog_graph/range"},
	{"have a drawing or a page repeat a long text for each place that refers to it", "the page has each text once, and a drawing cuts it", "catalog/graph TestBounds"},
	{"have a catalog's document parsed again for each finding", "a document is parsed once for all its findings", "cmd/berth TestCosts/catalog_validate/duplicates"},
	{"have a bundle's file parsed again for each finding", "as above", "cmd/berth TestCosts/bundle_validate/owned"},
	{"give OLM's resolver a problem that it does not solve in any time", "it has 30 seconds, and then the prediction says so", "olm/prediction TestSlowResolver"},
	{"keep a command computing, so that no signal ends it", "the first signal ends a command that only reads within half a second, and the second any command", "cmd/berth TestSignals"},
	{"have a catalog server keep the answers to requests of clients that read none", "what is made and what is not read yet take 64 MiB each at most, and a quarter of that for each address", "catalog/server TestUnreadAnswers"},
}
