package standin

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/authority"
)

// ServeCatalog plays catalogd for a new ClusterCatalog with the content of config, until the function that it returns is called. It also
// returns the authority of its certificate.
func ServeCatalog(ctx context.Context, c client.Client, name string, config declcfg.DeclarativeConfig) (trusted []byte, stop func(), err error) {
	var catalog bytes.Buffer
	if err := declcfg.WriteJSON(config, &catalog); err != nil {
		return nil, nil, err
	}
	made, err := authority.New("catalogd")
	if err != nil {
		return nil, nil, err
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(catalog.Bytes()) }))
	if server.TLS, err = made.Config([]string{"127.0.0.1"}); err != nil {
		return nil, nil, err
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients end connections in handshakes, too
	server.StartTLS()
	served := object("olm.operatorframework.io/v1", "ClusterCatalog", "", name)
	served.Object["spec"] = map[string]any{"source": map[string]any{"type": "Image", "image": map[string]any{"ref": "registry.example.com/catalog:latest"}}}
	if err = c.Create(ctx, served); err == nil {
		changed := served.DeepCopy()
		changed.Object["status"] = map[string]any{"urls": map[string]any{"base": server.URL + "/catalogs/" + name}, "conditions": []any{condition("Serving", "Available", "")}}
		err = c.Status().Patch(ctx, changed, client.MergeFrom(served))
	}
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	return made.PEM(), server.Close, nil
}
