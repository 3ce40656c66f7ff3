package escape

import (
	"os/exec"
	"strings"
	"testing"
)

// TestCommand makes a real shell read commands with words of strangers.
func TestCommand(t *testing.T) {
	for _, word := range []string{
		"website", "openshift-operators", "system:node:a", "berth.dev/a=b", "a b", "x; echo ran #", "$(echo ran)", "`echo ran`", "it's", "'; echo ran; '", "a\necho ran", "~", "*", "a&b", "a|b",
		"a>b", "{a,b}", "!!", "a\\", "\"a\"", "#a", "ü",
	} {
		command := Command("printf '<%%S>' first %s last", word)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, "%%S", "%s")).Output()
		if want := "<first><" + Visible(word) + "><last>"; err != nil || string(out) != want {
			t.Errorf("%q becomes %s, which prints %q (%v), want %q", word, command, out, err, want)
		}
	}
	for _, word := range []string{"", "-A", "--all", strings.Repeat("a", wordLimit+1)} {
		if got := Command("oc delete pod %s", word); got != "oc delete pod '<NAME>'" {
			t.Errorf("%.20q becomes %.40s, want a placeholder", word, got)
		}
	}
}
