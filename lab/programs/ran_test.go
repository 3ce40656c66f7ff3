package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain: this test's executable also plays users' programs. One prints its version, and another lacks that flag.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "livenessprobe":
		fmt.Printf("%s v9.9.9 go1.26.3\n", os.Args[0])
		os.Exit(0)
	case "nfsplugin":
		fmt.Println("flag provided but not defined: -version 1.2.3")
		os.Exit(2)
	}
	os.Exit(m.Run())
}

func TestWhichRuns(t *testing.T) {
	content, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	folder := filepath.Join(t.TempDir(), "of-1.0.0") // which is no version
	require.NoError(t, os.Mkdir(folder, 0o755))
	for _, name := range []string{"livenessprobe", "nfsplugin"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), content, 0o755))
	}
	t.Setenv(GivenVariable, folder)
	for _, test := range []struct {
		program, want string
		given         bool
	}{
		{"livenessprobe", `the real one, v9\.9\.9`, true},
		{"nfsplugin", `the real one, sha256:[0-9a-f]{12}`, true},
		{"csi-provisioner", `the real one, v[0-9.]+`, false},
		{"standin", "our stand-in", false},
		{"sample", "the real one", false},
	} {
		if ran, err := WhichRuns(test.program); err != nil || ran.Given != test.given || !regexp.MustCompile("^"+test.want+"$").MatchString(ran.String()) {
			t.Errorf("%s: %+v, %v; want %s", test.program, ran, err, test.want)
		}
	}
	if ran, err := WhichIsBuilt("livenessprobe"); err != nil || ran.Given {
		t.Errorf("without what users give: %+v, %v", ran, err)
	}
}
