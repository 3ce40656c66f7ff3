package oci

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestWanted: of a list, only manifests for a wanted platform or for none are copied. A list that has nothing else for it is
// refused: pods could not pull it.
func TestWanted(t *testing.T) {
	of := func(os, architecture string) v1.Descriptor {
		return v1.Descriptor{Platform: &v1.Platform{OS: os, Architecture: architecture}}
	}
	provenance := of("unknown", "unknown")
	for name, tc := range map[string]struct {
		listed []v1.Descriptor
		some   int
		fault  string
	}{
		"all are wanted":        {[]v1.Descriptor{of("linux", "amd64")}, 1, ""},
		"some are":              {[]v1.Descriptor{of("linux", "arm64"), of("linux", "amd64"), provenance}, 2, ""},
		"none is":               {[]v1.Descriptor{of("linux", "arm64")}, 0, "images for linux/arm64; expected one for linux/amd64"},
		"only what is for none": {[]v1.Descriptor{of("linux", "arm64"), provenance}, 0, "images for linux/arm64; expected one for linux/amd64"},
		"no platforms":          {[]v1.Descriptor{{}}, 1, ""},
		"attachments":           {[]v1.Descriptor{provenance}, 1, ""},
	} {
		w := &walk{Whole: &Whole{}, platforms: []string{"linux/amd64"}}
		some, err := w.wanted(tc.listed)
		if len(some) != tc.some || (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%s: %d manifests, error %v; want %d, %q", name, len(some), err, tc.some, tc.fault)
		}
	}
}
