package operators

import (
	"fmt"
	"strings"
)

// Rowboats is a catalog, as YAML without its bundles, with no upgrade edge from 1.1.0 to the latest version, 2.0.0.
// Channel slow ends at 1.1.0.
const Rowboats = `schema: olm.package
name: rowboat
defaultChannel: stable
---
schema: olm.channel
package: rowboat
name: stable
entries:
- {name: rowboat.v2.0.0, skipRange: '<1.1.0', skips: [rowboat.v1.1.0-rc1]}
---
schema: olm.channel
package: rowboat
name: slow
entries:
- name: rowboat.v1.0.0
- {name: rowboat.v1.1.0, replaces: rowboat.v1.0.0}
`

// Ferries is a catalog whose latest version, 2.0.0, is deprecated.
const Ferries = `schema: olm.package
name: ferry
defaultChannel: stable
---
schema: olm.channel
package: ferry
name: stable
entries:
- name: ferry.v1.0.0
- {name: ferry.v1.1.0, replaces: ferry.v1.0.0}
- {name: ferry.v2.0.0, replaces: ferry.v1.1.0, skips: [ferry.v1.0.0]}
---
schema: olm.deprecations
package: ferry
entries:
- {reference: {schema: olm.bundle, name: ferry.v2.0.0}, message: it leaks}
`

// BundleDocument returns a bundle of such a catalog, with an image that does not exist.
func BundleDocument(pkg, version string) string {
	return fmt.Sprintf(`---
schema: olm.bundle
package: %[1]s
name: %[1]s.v%[2]s
image: registry.example.com/%[1]s:v%[3]s
properties:
- {type: olm.package, value: {packageName: %[1]s, version: %[2]s}}
`, pkg, version, strings.ReplaceAll(version, "+", "-"))
}
