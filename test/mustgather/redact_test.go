package mustgather

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// corpus has credentials as each cloud makes them, in each place where they may be collected. Texts between « and »
// must be removed; the other words stay, so that support has something to read. A text is a part of an object, in YAML, or from a log.
var corpus = []struct{ kind, object, log string }{
	{"a variable", "    - name: OS_PASSWORD\n      value: «hunter2secret»\n    - name: OS_REGION\n      value: north", ""},
	{"a quoted variable", "    - name: \"DB_PWD\"\n      value: \"«my secret, phrase»\"\n      other: stays", ""},
	{"a variable of several lines", "    - name: MYPASS\n      value: |-\n        «hunter2secret»\n        «more»\n    - name: after", ""},
	{"a folded text", "  password: «first» «second»\n    «third» «fourth»\n  stays: here", ""},
	{"a quoted text of several lines", "  clientSecret: \"«first» «second»\\\n    \\ «third»\"\n  stays: here", ""},
	{"an escaped quote", "{\"password\":\"«hun\\\"ter2secret»\",\"user\":\"admin\"}", "got {\"password\":\"«hun\\\"ter2secret»\",\"user\":\"admin\"}"},
	{"JSON in JSON", "", `msg="{\"token\":\"«hun\\\"ter2secret»\",\"user\":\"admin\"}"`},
	{"JSON in JSON in JSON", "", `path="msg=\"{\\\"token\\\":\\\"«hun\\\\\\\"ter2secret»\\\",\\\"user\\\":\\\"admin\\\"}\""`},
	{"JSON in JSON in JSON in JSON", "", `x="path=\"msg=\\\"{\\\\\\\"token\\\\\\\":\\\\\\\"«hunter2secret»`},
	{"single quotes", "password: 'a,«b hunter2''secret»'", "password='a,«b hunter2secret»' user=admin"},
	{"a field of JSON", `{"clientSecret": "«hunter2, \"secret»", "user": "admin"}`, ""},
	{"a variable in JSON", "{\"name\": \"AZURE_STORAGE_ACCOUNTKEY\", \"of\": \"stays\", \"value\": \"«hunter2\\\"secret»\"}", ""},
	{"an option", "    - --password=«hunter2secret»\n    - --v=2", "run --password «hunter2secret» --v=2"},
	{"an option and its value", "    - --api-token\n    - «hunter2secret»\n    - --v=2", ""},
	{"a list", "accessTokens: [«hunter2secret», «hunter3secret»]\nother: [stays]", ""},
	{"AWS keys", "aws_access_key_id: «AKIAABCDEFGHIJKLMNOP»\naws_secret_access_key: «wJalrXUtnFEMI/K7MDENG»\naws_session_token: «IQoJb3JpZ2luX2Vj»",
		"aws_access_key_id = «ASIAABCDEFGHIJKLMNOP» aws_secret_access_key = «wJalrXUtnFEMI/K7MDENG» aws_session_token=«IQoJb3JpZ2luX2Vj»"},
	{"an AWS signature", "", "GET https://s3.example.com/b?X-Amz-Credential=«AKIAABCDEFGHIJKLMNOP»&X-Amz-Signature=«abcdef0123456»"},
	{"an AWS header", "", "Authorization: AWS4-HMAC-SHA256 Credential=«AKIAABCDEFGHIJKLMNOP»/20250101/us-east-1, Signature=«abcdef0123456»"},
	{"an Azure connection string", "connection: AccountName=acct;AccountKey=«hunter2secret==»;EndpointSuffix=core.windows.net", "AccountName=acct;AccountKey=«hunter2secret==»;EndpointSuffix=core.windows.net"},
	{"an Azure account key", "  azurestorageaccountkey: «aHVudGVyMg==»", "key «" + strings.Repeat("aB3/", 21) + "aB==» of acct"},
	{"an Azure SAS", "", "SharedAccessSignature=sv=2020&sig=«hunter2secret%3D» and https://acct.blob.core.windows.net/c?sv=2020&sig=«hunter2secret%3D»"},
	{"an Azure client secret", "", "secret is «abc8Q~abcdefghijklmnopqrstuvwxyz0123456789» of app"},
	{"a CIFS mount", "", "mount.cifs //acct.file.core.windows.net/share /mnt -o vers=3.0,username=acct,pass=«hunter2secret»"},
	{"a CIFS user", "", "mount -o vers=3.0,username=acct%«hunter2secret» //x/y"},
	{"a Keystone token", "", "X-Auth-Token: «gAAAAABhunter2token» and gone «gAAAAABhunter2token»"},
	{"clouds.yaml", "      auth:\n        password: «hunter2secret»\n        application_credential_secret: «hunter2secret»\n        username: admin", ""},
	{"a key that never ends", "annotations:\n  note: -----BEGIN PRIVATE KEY-----\n  other: stays\nname: remains", "-----BEGIN PRIVATE KEY-----\nI1130 12:00:00.0 driver.go:12] nextline stays"},
	{"a key in a block that never ends", "annotations:\n  note: |\n    -----BEGIN RSA PRIVATE KEY-----\n    «MIIEpAIBAAKC»\n\n    «ab+cdef/gh==»\n  other: stays\nname: remains", ""},
	{"a key that never ends, in JSON", `{"note": "-----BEGIN PRIVATE KEY-----\n«MIIEvQIBADAN»", "other": "stays"}`, ""},
	{"a key behind prefixes", "", "E1130 12:00 key.go:1] -----BEGIN RSA PRIVATE KEY-----\nE1130 12:00 key.go:1] «MIIEowIBAAKCAQEAMIIEowIBAAKCAQEAMIIEowIBAAKCAQEA»\nE1130 12:00 key.go:1] «abcdefgh==»\nE1130 12:01 key.go:1] -----END RSA PRIVATE KEY-----\nremains"},
	{"a key of other characters", "", "-----BEGIN RSA PRIVATE KEY-----\n«s3cr3t-Marker.4242»\n  «abcd_efgh»\n-----END RSA PRIVATE KEY-----\nremains"},
	{"a key that never ends, in a log of objects", "", "-----BEGIN PRIVATE KEY-----\n" + `{"level":"info","msg":"stays"}`},
	{"an encrypted key", "", "-----BEGIN RSA PRIVATE KEY-----\n«Proc-Type: 4,ENCRYPTED»\n«DEK-Info: AES-256-CBC,0A0B0C0D»\n\n«MIIEpAIBAAKCAQEA»\n-----END RSA PRIVATE KEY-----\nremains"},
	{"a GCP key file", `{"private_key": "-----BEGIN PRIVATE KEY-----\n«MIIEvQIBADAN»\n-----END PRIVATE KEY-----\n", "client_email": "a@b"}`, ""},
	{"a GCP token", "", "got «ya29.a0AfH6SMBhunter» and «AIzaSyA1234567890abcdefghijklmnopqrstuv»"},
	{"vSphere", "  user: administrator@vsphere.local\n  vcenter.example.com.password: «hunter2secret»", "vcenter.example.com.password=«hunter2secret» server"},
	{"an Azure SAS in JSON", "", `{"url":"https://acct.blob.core.windows.net/c?sv=2020\u0026sig=«hunter2secret»"}`},
	{"a password after a header", "", "Authorization: Basic «dXNlcjpodW50ZXIy, pwd='my hunter2secret'»"},
	{"a header of GitHub", "", "Authorization: token «abcdefghijkl»"},
	{"Basic", "", "Authorization: Basic «dXNlcjpodW50ZXIy»"},
	{"a list of headers", "", `headers map[Authorization:[Bearer «abcdefghijkl»] Accept:[json]]`},
	{"two headers side by side", "", "GET /?X-Amz-Signature=«abcdef0123456»:Set-Cookie: session=«abcdefghijkl»"},
	{"a cookie", "", "Set-Cookie: session=«abcdefghijkl»; Path=/"},
	{"a web token", "", "got «eyJhbGciOi.eyJzdWIi.c2lnbmF0dXJl» back"},
	{"GitHub", "", "clone with «ghp_abcdefghijklmnopqrstuvwxyz0123456789» now"},
	{"a registry", `    "auth": "«dXNlcjpodW50ZXIy»"`, `{"auths":{"quay.io":{"auth":"«dXNlcjpodW50ZXIy»"}}}`},
	{"OpenShift", "", "oc login --token «sha256~abcdefghijklmnopqrstuvwxyz0123456789AB»"},
	{"curl", "", "curl -u «admin:hunter2secret» https://example.com"},
	{"a URL", "server: https://«admin:hunter2secret»@example.com/", "GET https://«admin:hunter2secret»@example.com/"},
	{"stringData", "stringData:\n  «config: hunter2secret»\n  «more: hunter2secret»\nstays: here", ""},
	{"nothing", "  secretName: efs-secret\n  automountServiceAccountToken: true\n  tokenExpirationSeconds: 3600\n  imagePullSecrets:\n  - name: pull\n  secretKeyRef:\n    key: password\n    name: creds\n" +
		"  csi.storage.k8s.io/node-stage-secret-name: secret\n  tokenRequests:\n  - audience: sts.amazonaws.com", "token=true passwords are wanted in secret openshift-x/y"},
}

var secret = regexp.MustCompile(`«([^»]*)»`)

// TestRedact has the script redact each credential, as it is and within a longer line: a credential in a log also where it is a text in an object.
// functions returns the part of the script between two of its headings.
func functions(t *testing.T, from, to string) string {
	t.Helper()
	script, err := os.ReadFile("../../deploy/must-gather/gather")
	require.NoError(t, err)
	part := regexp.MustCompile(`(?s)\n# --- ` + from + `.*?\n# --- ` + to).FindString(string(script))
	require.NotEmpty(t, part, "the part of the script from %q to %q", from, to)
	return part
}

// TestLongTexts: any team may write a text of a megabyte into the claim that the script collects, and thousands of such claims. One that took
// minutes would keep the script from ever collecting what belongs to others.
func TestLongTexts(t *testing.T) {
	functions := functions(t, "untrusted input", "choosing what to collect")
	const size = 1 << 20
	for name, of := range map[string]string{
		"backslashes": `\`, "quotes": `"`, "lines": "\n", "escapes of the client": "<", "letters of two bytes": "é", "marks of direction": "\u202e",
		"URLs without users": "://", "proxies": "http_proxy=", "web tokens": "eyJ", "options": "-",
	} {
		// What a pattern looks for is in the line, so that each place may be the beginning.
		text := strings.Repeat(of, size/len(of)) + " ://@ http_proxy=@ eyJa.a.a --token a"
		object, err := json.MarshalIndent(map[string]any{"text": text}, "", "    ")
		require.NoError(t, err)
		for form, input := range map[string]string{"objects": string(object), "log": text} {
			t.Run(name+", "+form, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, "bash", "-c", "set -euo pipefail"+functions+"\nprintable | redact "+form)
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // of all programs of the pipe
				cmd.Stdin = strings.NewReader(input + "\n")
				out, err := cmd.CombinedOutput()
				require.NoError(t, ctx.Err(), "it takes more than a minute")
				require.NoErrorf(t, err, "%.1000s", out)
				require.Contains(t, string(out), "--token <redacted>", "what follows the long word")
			})
		}
	}
}

func TestRedact(t *testing.T) {
	functions := functions(t, "redacting secrets", "")
	check := func(t *testing.T, form, text, input string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-c", "set -euo pipefail"+functions+"\nredact "+form)
		cmd.Stdin = strings.NewReader(input + "\n")
		out, err := cmd.CombinedOutput()
		require.NoErrorf(t, err, "%s", out)
		got := string(out)
		for _, match := range secret.FindAllStringSubmatch(text, -1) {
			for _, part := range word.FindAllString(match[1], -1) {
				if strings.Contains(got, part) {
					t.Errorf("%q is left of %q in\n%s", part, match[1], got)
				}
			}
		}
		for _, part := range word.FindAllString(secret.ReplaceAllString(text, " "), -1) {
			lost := slices.Contains([]string{"BEGIN", "PRIVATE", "HMAC", "SHA256", "AWS4", "2020", "20250101", "east", "Signature", "Credential", "Path", "session", "Cookie", "gone", "u0026sig"}, part)
			if !lost && !strings.Contains(got, part) {
				t.Errorf("%q is lost in\n%s", part, got)
			}
		}
		if form == "objects" && yaml.Unmarshal(out, &map[string]any{}) != nil {
			t.Errorf("this is no YAML:\n%s", got)
		}
	}
	objects := func(t *testing.T, object any) string {
		t.Helper()
		text, err := json.MarshalIndent(map[string]any{"object": object}, "", "    ") // as the client does
		require.NoError(t, err)
		return string(text)
	}
	for _, c := range corpus {
		t.Run(c.kind, func(t *testing.T) {
			if c.object != "" {
				var object any
				require.NoError(t, yaml.Unmarshal([]byte(secret.ReplaceAllString(c.object, "$1")), &object))
				check(t, "objects", c.object, objects(t, object))
			}
			if c.log != "" {
				plain := secret.ReplaceAllString(c.log, "$1")
				check(t, "log", c.log, plain)
				check(t, "objects", c.log, objects(t, strings.Repeat("before ", 12)+plain))
			}
		})
	}
}

var word = regexp.MustCompile(`[A-Za-z0-9]{4,}`)

// TestNamesOfVariables: the script gives no variable of awk a name that GNU awk, which many images have, refuses as an option's.
func TestNamesOfVariables(t *testing.T) {
	script, err := os.ReadFile("../../deploy/must-gather/gather")
	require.NoError(t, err)
	all := regexp.MustCompile(` -v ([a-z_]+)=`).FindAllStringSubmatch(string(script), -1)
	require.NotEmpty(t, all)
	for _, found := range all {
		if slices.Contains([]string{"namespace", "include", "load", "and", "or", "xor", "compl", "func", "gensub", "strftime", "systime", "mktime", "typeof", "switch", "case", "default"}, found[1]) {
			t.Errorf("GNU awk refuses the option%s", found[0])
		}
	}
}
