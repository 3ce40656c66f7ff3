package featuregates

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOf: the gates that are on in a version, and after settings.
func TestOf(t *testing.T) {
	for name, test := range map[string]struct {
		version, settings string
		on                []Gate
		err               string
	}{
		"the latest":                    {version: Latest, on: []Gate{CertManager, ServiceCA}},
		"a patch version":               {version: "v1.11.3", on: []Gate{CertManager, ServiceCA}},
		"before webhooks":               {version: "1.5"},
		"the only one with a namespace": {version: "1.8", on: []Gate{SingleOwnNamespace, CertManager, ServiceCA}},
		"OpenShift before webhooks":     {version: "4.20"},
		"OpenShift":                     {version: "4.21.7", on: []Gate{ServiceCA}},
		"a gate is set":                 {version: "4.20", settings: "BoxcutterRuntime=true", on: []Gate{Boxcutter}},
		"gates are set":                 {version: "1.11", settings: " WebhookProviderCertManager=false, DeploymentConfig=true", on: []Gate{ServiceCA, DeploymentConfig}},
		"a gate that decides nothing":   {version: "4.20", settings: "PreflightPermissions=false"},
		"all gates":                     {version: "4.20", settings: All(true), on: all},
		"no such gate":                  {version: "1.11", settings: "Boxcutter=true", err: `no feature gate "Boxcutter", want one of SingleOwn`},
		"no value":                      {version: "1.11", settings: "BoxcutterRuntime", err: "want NAME=true or NAME=false"},
		"no such version":               {version: "1.99", err: "1.10, 1.11, or of OpenShift, 4.18, 4.19"},
		"no version":                    {version: "", err: `version "" of OLM v1 is not known`},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := Of(test.version)
			if err == nil {
				set, err = set.With(test.settings)
			}
			if test.err != "" {
				assert.ErrorContains(t, err, test.err, "got error")
				return
			}
			require.NoError(t, err)
			want := Set{}
			for _, gate := range test.on {
				want[gate] = true
			}
			for _, gate := range all {
				assert.Equalf(t, want[gate], set[gate], "%s", gate)
			}
		})
	}
}
