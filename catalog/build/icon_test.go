package build_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/build"
)

// TestHostileIcons: a template publishes no other file as its icon, by a link, and a pipe or a device keeps no command busy.
func TestHostileIcons(t *testing.T) {
	for name, put := range map[string]func(icon string) error{
		"a link to a secret": func(icon string) error {
			if err := os.WriteFile(icon+".secret", []byte("secret"), 0o600); err != nil {
				return err
			}
			return os.Symlink("../"+icon+".secret", icon)
		},
		"a link to a device": func(icon string) error { return os.Symlink("/dev/zero", icon) },
		"a link to /proc":    func(icon string) error { return os.Symlink("/proc/self/environ", icon) },
		"a pipe":             func(icon string) error { return syscall.Mkfifo(icon, 0o600) },
		"a huge file": func(icon string) error {
			if err := os.WriteFile(icon, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(icon, 1<<40)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			writeBundles(t)
			for _, err := range []error{os.Mkdir("icons", 0o755), put("icons/tide.svg"),
				os.WriteFile("tide.yaml", []byte("schema: berth.template\npackage: tide\nicon: icons/tide.svg\nbundles: [{folder: bundles/1.0.0}]\nchannels: [{name: stable}]\n"), 0o600)} {
				require.NoError(t, err)
			}
			configs, found, err := configsOf(t, []string{"tide.yaml"}, build.Options{})
			require.NoError(t, err)
			if len(configs) > 0 || len(found) != 1 || !strings.Contains(found[0].Message, "icon: ") {
				t.Errorf("%d catalogs, and findings %v; want only one about the icon", len(configs), found)
			}
		})
	}
}
