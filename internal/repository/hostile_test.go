package repository_test

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/repository"
)

// gitIn returns a function that runs git in a folder.
func gitIn(t *testing.T, dir string) func(args ...string) string {
	return func(args ...string) string {
		t.Helper()
		command := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=Moon", "-c", "user.email=moon@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		out, err := command.CombinedOutput()
		require.NoErrorf(t, err, "git %v: %s", args, out)
		return strings.TrimSpace(string(out))
	}
}

// touched makes a file look as if it may have changed, with the same length, so that git reads it.
func touched(t *testing.T, dir, file string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(file))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text[0] ^= 1
	require.NoError(t, os.WriteFile(path, text, 0o644))
}

// TestHostileGit: a repository's own settings run no program. They may come with an archive, or with a folder of a branch.
func TestHostileGit(t *testing.T) {
	for _, tc := range []struct {
		name string
		// arrange gives a repository settings that run a program, and returns the folder that is checked.
		arrange func(t *testing.T, dir, program string, git func(...string) string) string
		want    string // part of an error
	}{
		{"filter", func(t *testing.T, dir, program string, git func(...string) string) string {
			git("config", "filter.evil.clean", program)
			git("config", "filter.evil.required", "true")
			files{".gitattributes": "* filter=evil\n"}.write(t, dir)
			touched(t, dir, config)
			return dir
		}, ""},
		{"long-running filter", func(t *testing.T, dir, program string, git func(...string) string) string {
			git("config", "filter.evil.process", program)
			files{".gitattributes": "* filter=evil\n"}.write(t, dir)
			touched(t, dir, config)
			return dir
		}, ""},
		{"repository in a branch", func(t *testing.T, dir, program string, git func(...string) string) string {
			in := filepath.Join(dir, "in")
			community().write(t, in)
			nested := gitIn(t, in)
			nested("init", "--quiet", "--initial-branch=main")
			nested("add", ".")
			nested("commit", "--quiet", "--message=first")
			nested("config", "core.worktree", in)
			nested("config", "filter.evil.clean", program)
			files{".gitattributes": "* filter=evil\n"}.write(t, in)
			touched(t, in, config)
			for _, name := range []string{"HEAD", "config", "index", "objects", "refs"} { // a branch can have all of that
				require.NoError(t, os.Rename(filepath.Join(in, ".git", name), filepath.Join(in, name)))
			}
			require.NoError(t, os.RemoveAll(filepath.Join(in, ".git")))
			return in
		}, "cannot use bare repository"},
		{"submodule", func(t *testing.T, dir, program string, git func(...string) string) string {
			in := filepath.Join(dir, "in")
			files{"a": "a"}.write(t, in)
			nested := gitIn(t, in)
			nested("init", "--quiet", "--initial-branch=main")
			nested("add", ".")
			nested("commit", "--quiet", "--message=first")
			git("update-index", "--add", "--cacheinfo", "160000,"+nested("rev-parse", "HEAD")+",in")
			git("commit", "--quiet", "--message=submodule")
			nested("config", "filter.evil.clean", program)
			files{".gitattributes": "* filter=evil\n"}.write(t, in)
			touched(t, in, "a")
			return dir
		}, ""},
		{"file of a partial clone", func(t *testing.T, dir, program string, git func(...string) string) string {
			git("config", "remote.origin.uploadpack", program)
			return partial(t, dir, dir, git)
		}, "transport 'file' not allowed"},
		{"file of a partial clone by ssh", func(t *testing.T, dir, program string, git func(...string) string) string {
			git("config", "core.sshCommand", program+"; false") // it gets the arguments of ssh
			return partial(t, dir, "ssh://127.0.0.1:1/tide", git)
		}, "git show: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
			community().write(t, dir)
			git := gitIn(t, dir)
			git("init", "--quiet", "--initial-branch=main")
			git("add", ".")
			git("commit", "--quiet", "--message=first")
			base, err := repository.Since(t.Context(), tc.arrange(t, dir, "touch "+ran, git), "main")
			if err == nil {
				_, err = base.Changed()
			}
			if err == nil {
				_, err = base.Read(config)
			}
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
			assert.NoFileExists(t, ran, "the program ran")
		})
	}
}

// partial makes a repository a partial clone that lacks a file.
func partial(t *testing.T, dir, url string, git func(...string) string) string {
	t.Helper()
	for name, value := range map[string]string{"core.repositoryformatversion": "1", "extensions.partialClone": "origin", "remote.origin.url": url, "remote.origin.promisor": "true"} {
		git("config", name, value)
	}
	blob := git("rev-parse", "HEAD:"+config)
	require.NoError(t, os.Remove(filepath.Join(dir, ".git", "objects", blob[:2], blob[2:])))
	return dir
}

// TestHostileConnection: a partial clone fetches a file that it lacks, but not where the repository's own settings make git write cookies
// to a file of the user, or send the user's passwords to a proxy.
func TestHostileConnection(t *testing.T) {
	program, err := exec.LookPath("git")
	require.NoError(t, err)
	for name, want := range map[string]string{
		"http.extraHeader": "", "http.http://127.0.0.1/.extraHeader": "", "http.saveCookies": "http.savecookies", "http.http://127.0.0.1.saveCookies": "http.http://127.0.0.1.savecookies",
		"http.sslVerify": "http.sslverify", "http.proxy": "http.proxy", "remote.origin.proxy": "remote.origin.proxy",
	} {
		t.Run(name, func(t *testing.T) {
			dir, served, cookies := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "cookies")
			community().write(t, dir)
			git := gitIn(t, dir)
			git("init", "--quiet", "--initial-branch=main")
			git("add", ".")
			git("commit", "--quiet", "--message=first")
			git("clone", "--quiet", "--bare", dir, filepath.Join(served, "tide.git"))
			gitIn(t, filepath.Join(served, "tide.git"))("config", "uploadpack.allowAnySHA1InWant", "true")
			backend := &cgi.Handler{Path: program, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + served, "GIT_HTTP_EXPORT_ALL=1"}}
			asked := atomic.Int32{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				http.SetCookie(w, &http.Cookie{Name: "a", Value: "$(evil)", MaxAge: 1 << 20})
				backend.ServeHTTP(w, r)
			}))
			t.Cleanup(server.Close)
			partial(t, dir, server.URL+"/tide.git", git)
			value := "false"
			switch {
			case strings.HasSuffix(name, "saveCookies"):
				git("config", "http.cookieFile", cookies)
				value = "true"
			case strings.HasSuffix(name, "roxy"):
				value = server.URL
			case strings.HasSuffix(name, "extraHeader"):
				value = "X-Tide: 1"
			}
			git("config", name, value)
			base, err := repository.Since(t.Context(), dir, "main")
			require.NoError(t, err)
			_, err = base.Read(config)
			assert.NoFileExists(t, cookies, "git has written cookies")
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "nothing is fetched, because its own settings say how")
			require.Zero(t, asked.Load(), "requests")
		})
	}
}

// TestHostilePatterns: the regular expressions of config.yaml are compiled once, and take little.
func TestHostilePatterns(t *testing.T) {
	for _, tc := range []struct{ name, patterns, want string }{
		{"repeated", "    - '(\\pL{300}){3}'\n", `config.yaml: test check_required_fields: ignore_operators has a pattern with a number of repetitions, (\pL{300}){3}; write out what is repeated`},
		{"many", strings.Repeat("    - '"+strings.Repeat("\\pL", 100)+"'\n", 1000), "config.yaml: test check_required_fields: the patterns of all ignore_operators have more than 65536 bytes; expected fewer"},
		{"invalid", "    - '('\n", "config.yaml: test check_required_fields: error parsing regexp"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			community().write(t, dir)
			files{config: "tests:\n- name: check_required_fields\n  ignore_operators:\n" + tc.patterns}.write(t, dir)
			_, err := repository.Open(dir, nil)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
