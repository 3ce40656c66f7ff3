package bundle

import "testing"

func TestInWords(t *testing.T) {
	for path, want := range map[string]string{
		"phase":              "Phase",
		"fileSystemID":       "File System ID",
		"claimRef.name":      "Claim Ref Name",
		"observedGeneration": "Observed Generation",
		"URLPath":            "URL Path",
		"SharedVolume":       "Shared Volume",
		"s3":                 "S3",
		"a.bC":               "A B C",
	} {
		if got := inWords(path); got != want {
			t.Errorf("inWords(%q) = %q, want %q", path, got, want)
		}
	}
}
