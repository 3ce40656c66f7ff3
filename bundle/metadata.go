package bundle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const packageAnnotation = "operators.operatorframework.io.bundle.package.v1"

// annotations returns the bundle's annotations: what a catalog reads before it reads any object.
// A bundle image carries the same as labels.
func annotations(packageName, channel string) map[string]string {
	return map[string]string{
		packageAnnotation: packageName,
		"operators.operatorframework.io.bundle.mediatype.v1":       "registry+v1",
		"operators.operatorframework.io.bundle.manifests.v1":       ManifestsDir + "/",
		"operators.operatorframework.io.bundle.metadata.v1":        MetadataDir + "/",
		"operators.operatorframework.io.bundle.channels.v1":        channel,
		"operators.operatorframework.io.bundle.channel.default.v1": channel,
	}
}

// dockerfile builds the bundle's image: its files and, as labels, its annotations.
func dockerfile(annotations map[string]string) []byte {
	var text strings.Builder
	text.WriteString("FROM scratch\n\n")
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		fmt.Fprintf(&text, "LABEL %s=%q\n", key, annotations[key])
	}
	fmt.Fprintf(&text, "\nCOPY %s /%s/\nCOPY %s /%s/\n", ManifestsDir, ManifestsDir, MetadataDir, MetadataDir)
	return []byte(text.String())
}
