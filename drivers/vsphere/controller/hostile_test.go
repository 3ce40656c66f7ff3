package controller

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEndlessHosts: a server that answers in the place of a vCenter, whose certificate is not verified, says each time that there are more hosts. The
// operator keeps a name and a sentence about each.
func TestEndlessHosts(t *testing.T) {
	const pages = 100
	host := `<objects><propSet><name>name</name><val>h</val></propSet><propSet><name>config.product.apiVersion</name><val>6.7.3</val></propSet></objects>`
	page := []byte(strings.Repeat(host, 1<<20/len(host)))
	asked := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		_, _ = io.WriteString(w, `<Envelope><Body><Response><returnval>`)
		if bytes.Contains(request, []byte("RetrievePropertiesEx")) {
			if asked++; asked < pages {
				fmt.Fprintf(w, "<token>%d</token>", asked)
			}
			_, _ = w.Write(page)
		}
		_, _ = io.WriteString(w, `<about><apiType>VirtualCenter</apiType><apiVersion>8.0.3</apiVersion></about></returnval></Response></Body></Envelope>`)
	}))
	defer server.Close()
	name, text, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	_, err = vCenter{server: name, port: port, insecure: true, clusters: []string{"/DC0/host/C0"}, user: "u@vsphere.local", password: "p"}.check(t.Context(), nil)
	require.ErrorContains(t, err, "its answers have more than 8 MiB")
	assert.Less(t, asked, 10, "pages that were asked for")
}
