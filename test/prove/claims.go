package main

import (
	"regexp"
	"slices"
)

// Programs that are real in tests with a cluster.
var (
	controlPlane = []string{"Kubernetes", "etcd", "OLM"}
	withNodes    = []string{"Kubernetes", "etcd", "OLM", "containerd"}
)

// ofMirror returns a claim about berth catalog mirror that tests of its package prove.
func ofMirror(id, sentence, run string) claim {
	return claim{id: "mirror-" + id, page: "docs/catalog/disconnected.md", sentence: sentence, tests: suite{pkg: "./catalog/mirror", run: run},
		played: "registries of the tests, on loopback"}
}

// claims has the claims of the pages that administrators decide by, in the order of the pages.
var claims = slices.Concat(aboutBerth, versionClaims(), aboutDrivers)

var aboutBerth = []claim{
	{
		id: "catalog-memory", page: "README.md", suite: "catalog-pods", real: append([]string{"opm"}, withNodes...),
		sentence: "A catalog's pod takes at most 44 MiB of its 50Mi, for 131 MB of catalog and 50 clients. With opm, it is killed",
		figures: []figure{
			{name: "MiB at most, with 50 clients", in: regexp.MustCompile(`(?m)berth metadata \| [^|]* \| [^|]* \| \d+ \| [^|]* \| ([\d.]+)\+([\d.]+) \|`), atMost: 44},
			{name: "restarts of opm", in: regexp.MustCompile(`(?m)opm within 50Mi metadata \|.*restarts (\d+)$`), atLeast: 1},
		},
	},
	{
		id: "templates", page: "README.md", tests: suite{pkg: "./test/catalogs", bench: "^BenchmarkTemplate$"}, real: []string{"opm"}, played: "a registry of the tests, on loopback",
		sentence: "Catalogs are built from opm's templates 3.6 times as fast as by opm, and 6 times with a registry that takes 20 ms to answer",
		figures: []figure{
			{name: "times as fast", in: regexp.MustCompile(`(?m)^BenchmarkTemplate/\S+/loopback\S*\s.*?([\d.]+) x-faster\s`), atLeast: 3.6},
			{name: "times as fast, with a registry of 20 ms", in: regexp.MustCompile(`(?m)^BenchmarkTemplate/\S+/remote\S*\s.*?([\d.]+) x-faster\s`), atLeast: 6},
		},
	},
	{
		id: "opm-finds-nothing", page: "README.md", tests: suite{pkg: "./catalog/graph", run: "^Test(Picture|OPMFindsNoFault)$"}, real: []string{"opm"},
		sentence: "`opm validate` finds no fault in the package of this picture.",
	},
	{
		id: "clusters", page: "README.md", tests: suite{pkg: "./test/drivers/matrix", run: "^TestMatrix$/^efs$"}, real: withNodes, played: "AWS, and the EFS driver",
		sentence: "The clusters run real etcd, Kubernetes 1.36 and OLM 0.46, with the real bundle and catalog, on real kubelets.",
	},
	{
		id: "doctor", page: "README.md", tests: suite{pkg: "./test/e2e", run: "^TestDoctor$"}, real: controlPlane, played: "AWS, nodes, and the driver's programs",
		sentence: "`berth doctor` names what is wrong and the command that helps.",
	},
	{
		id: "published", page: "docs/start/compatibility.md", suite: "published", real: withNodes, played: "AWS, and the driver's programs",
		sentence: "OLM v0 or [OLM v1](../move/olm-v1.md) installs them: the released [catalogs](../catalog/release.md) and bundles are for both.",
	},
	{
		id: "tls", page: "docs/start/compatibility.md", tests: suite{pkg: "./operator/metrics ./operator", run: "^Test(TLSProfile|Configuration)$"}, real: []string{"Kubernetes", "etcd"},
		sentence: "Their own endpoints and the driver's follow the profile of APIServer `cluster` at once",
	},
	{
		id: "network-policies", page: "docs/start/compatibility.md", tests: suite{pkg: "./drivers", run: "^TestNetworkPolicies$"},
		sentence: "Pods of operators and drivers have the labels by which OpenShift's NetworkPolicies for storage permit their traffic, such as `openshift.storage.network-policy.dns: allow`.",
	},
	{
		id: "other-driver", page: "docs/start/compatibility.md", tests: suite{pkg: "./operator", run: "^TestOtherDriver$"}, real: []string{"Kubernetes", "etcd"}, played: "Red Hat's driver",
		sentence: "ours changes nothing while that driver is there: `OtherDriver`",
	},
}

var aboutDrivers = []claim{
	{
		id: "matrix", page: "docs/reference/drivers.md", suite: "drivers", real: withNodes, played: "clouds, and what the page lists",
		sentence: "Each \"yes\" is a test that ran the real driver: installed by OLM from a catalog, with its sidecars, on two real nodes.",
	},
	{
		id: "azure-stack", page: "docs/reference/drivers.md", tests: suite{pkg: "./drivers", run: "^TestAzureEndpoints$"},
		sentence: "a test of the definition shows that an Azure Stack's reach the driver's container",
	},
	{
		id: "mounted-volumes", page: "docs/operate/slo.md", suite: "continuity", real: withNodes, played: "clouds, and the EFS driver",
		sentence: "Mounted volumes keep working whatever happens to an operator, and AWS runs EFS itself: the numbers include neither.",
	},
	{
		id: "slo-alerts", page: "docs/operate/slo.md", tests: suite{pkg: "./drivers", run: "^Test(Alerts|EachAlertIsTested)$"}, real: []string{"promtool"},
		sentence: "An alert fires if the objective will be missed at the rate of failures in two of these windows: a long one, which shows that much has gone wrong, and a short one, which shows that it still goes wrong.",
	},
	{
		id: "slo-waiting", page: "docs/operate/slo.md", tests: suite{pkg: "./sharedvolume", run: "^TestReadinessTimer$"},
		sentence: "A SharedVolume that waits for a grant, a quota, or somebody's claim does not count: it says so in its condition, and its namespace has an event.",
	},
	ofMirror("several", "So several catalogs may share a path: none takes the place of another one, of an image of another registry, or of its signatures.", "^Test(OthersStay|TagsStay)$"),
	ofMirror("earlier", "**A mirror that an earlier version made** keeps working.", "^TestEarlierMirror$"),
	ofMirror("folder", "Nothing in it is trusted: names are checked, and the digest of each file when it is read.", "^TestHostileFolders$"),
	ofMirror("again", "Mirror to the same folder again, and only new images are added; what is no longer chosen is deleted.", "^TestSmallerLater$"),
	ofMirror("choice", "Entries keep what they replace, skip and have in their skipRange, even if that is not mirrored.", "^TestChoose$"),
	ofMirror("dependencies", "If a bundle depends on something that it lacks, a warning says so.", "^TestDependencies$"),
	ofMirror("killed", "nothing is half-written: an image gets its name when everything that belongs to it is there, the catalog's tag is set when all images are there", "^TestKilled$"),
	ofMirror("dropped", "| a connection drops | the request is repeated", "^TestDroppedConnections$"),
	ofMirror("slow", "an image takes longer than `--image-timeout` | the others are copied, and the image is named. The catalog stays as it is |", "^TestOneBadImage$"),
	ofMirror("three", "| a registry fails with three images in a row | it is asked for no others |", "^TestFaults$"),
	ofMirror("unlisted", "| the catalog lists no images of a bundle, or one without a pull spec | the images that its ClusterServiceVersion names are copied; where that cannot be read, a warning says so |", "^TestUnlistedImages$"),
	ofMirror("disk", "| the disk is full | the command ends and says where to make room |", "^TestDiskFull$"),
	ofMirror("logins", "Each registry gets only the login that is for it.", "^TestCredentials$"),
}
