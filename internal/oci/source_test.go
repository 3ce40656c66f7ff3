package oci

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"testing"
	"testing/iotest"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"
)

// TestOtherContentIsNeverWhole: nobody gets the last bytes of a blob that is another one, in however small pieces they
// read. A registry that got them all would refuse the digest itself, before or after the reader does.
func TestOtherContentIsNeverWhole(t *testing.T) {
	sum := sha256.Sum256([]byte("content"))
	want := v1.Descriptor{Size: 7, Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}}
	for _, tc := range []struct{ name, text, refusal string }{
		{"as said", "content", ""},
		{"other bytes", "context", "its blob " + want.Digest.String() + " has content with the digest sha256:.*; expected the same"},
		{"longer", "contents", "does not have the 7 bytes"},
		{"longer and other", "contextual", "does not have the 7 bytes"},
		{"shorter", "conten", "does not have the 7 bytes"},
		{"empty", "", "does not have the 7 bytes"},
	} {
		for pieces, read := range map[string]func(io.Reader) io.Reader{
			"whole":           func(r io.Reader) io.Reader { return r },
			"byte by byte":    iotest.OneByteReader,
			"with its end":    iotest.DataErrReader,
			"seven at a time": func(r io.Reader) io.Reader { return sevenReader{r} },
		} {
			t.Run(tc.name+"/"+pieces, func(t *testing.T) {
				got, err := io.ReadAll(verified(io.NopCloser(read(bytes.NewReader([]byte(tc.text)))), want))
				if tc.refusal == "" {
					require.NoError(t, err)
					require.Equal(t, tc.text, string(got))
					return
				}
				require.Error(t, err)
				require.Regexp(t, tc.refusal, err.Error())
				require.Less(t, len(got), int(want.Size), "the reader got as many bytes as the manifest says")
			})
		}
	}
}

// sevenReader reads at most seven bytes at a time, as the sender of a request does that said how many there are.
type sevenReader struct{ io.Reader }

func (s sevenReader) Read(p []byte) (int, error) { return s.Reader.Read(p[:min(len(p), 7)]) }
