package bundle

import (
	"fmt"
	"strings"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/boundedyaml"
)

// monitoringFiles returns the objects that let the cluster's monitoring scrape the operator. OLM creates them in the operator's namespace
// and removes them with the operator. Under OLM v0, package operator/controllers makes sure of their removal.
func monitoringFiles(d drivers.Driver) ([]registryv1.File, error) {
	monitoring, err := d.OperatorMonitoring()
	if err != nil {
		return nil, err
	}
	var files []registryv1.File
	for _, m := range monitoring {
		if err := drivers.CheckRendered(m.YAML); err != nil {
			return nil, fmt.Errorf("asset %s: %w", m.File, err)
		}
		data, err := boundedyaml.Marshal(m.Object.Object)
		if err != nil {
			return nil, err
		}
		name := m.Object.GetName() + "." + strings.ToLower(m.Object.GetKind()) + ".yaml"
		files = append(files, registryv1.File{Path: registryv1.ManifestsDir + "/" + name, Data: data})
	}
	return files, nil
}
