package main

import (
	"flag"
	"fmt"
	"time"

	logs "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

// parse parses a command line. Flags that the real program does not have are errors.
func (p program) parse(name string, args []string) (*flag.FlagSet, error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	if p.klog {
		klog.InitFlags(flags)
	}
	if p.logging {
		logs.AddGoFlags(logs.NewLoggingConfiguration(), flags)
	}
	for name, value := range p.flags {
		switch value := value.(type) {
		case string:
			flags.String(name, value, "")
		case bool:
			flags.Bool(name, value, "")
		case int:
			flags.Int(name, value, "")
		case int64:
			flags.Int64(name, value, "")
		case uint64:
			flags.Uint64(name, value, "")
		case float64:
			flags.Float64(name, value, "")
		case time.Duration:
			flags.Duration(name, value, "")
		default:
			return nil, fmt.Errorf("the table has the default %v of type %T for --%s", value, value, name)
		}
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("got the arguments %q, want flags alone", flags.Args())
	}
	return flags, nil
}

// valueOf returns the value of a flag.
func valueOf[T any](flags *flag.FlagSet, name string) T {
	return flags.Lookup(name).Value.(flag.Getter).Get().(T)
}

// registrarFlags are the flags of node-driver-registrar 2.17.
var registrarFlags = map[string]any{
	"connection-timeout":        time.Duration(0),
	"csi-address":               "/run/csi/socket",
	"enable-pprof":              false,
	"health-port":               0,
	"http-endpoint":             "",
	"kubelet-registration-path": "",
	"mode":                      "",
	"plugin-registration-path":  "/registration",
	"timeout":                   time.Second,
	"version":                   false,
}

// livenessProbeFlags are the flags of livenessprobe 2.19.
var livenessProbeFlags = map[string]any{
	"csi-address":     "/run/csi/socket",
	"health-port":     defaultHealthPort,
	"http-endpoint":   "",
	"metrics-address": "",
	"metrics-path":    "/metrics",
	"probe-timeout":   3 * time.Second,
}

// azureDiskFlags are the flags of the Azure Disk driver in OpenShift 4.21, release 1.34.
var azureDiskFlags = map[string]any{
	"allow-empty-cloud-config":              true,
	"attach-detach-initial-delay-ms":        1000,
	"check-disk-count-for-batching":         true,
	"check-disk-lun-collision":              true,
	"cloud-config-secret-name":              "azure-cloud-provider",
	"cloud-config-secret-namespace":         "kube-system",
	"concurrent-format-timeout":             300,
	"convert-rw-caching-mode-for-intree-pv": false,
	"custom-user-agent":                     "",
	"detach-operation-min-timeout-seconds":  240,
	"disable-avset-nodes":                   false,
	"drivername":                            "disk.csi.azure.com",
	"enable-disk-capacity-check":            false,
	"enable-disk-online-resize":             true,
	"enable-list-snapshots":                 false,
	"enable-list-volumes":                   false,
	"enable-migration-monitor":              true,
	"enable-minimum-retry-after":            true,
	"enable-otel-tracing":                   false,
	"enable-perf-optimization":              false,
	"enable-traffic-manager":                false,
	"enable-windows-host-process":           false,
	"endpoint":                              "unix://tmp/csi.sock",
	"force-detach-backoff":                  true,
	"get-disk-timeout-seconds":              15,
	"get-node-info-from-labels":             false,
	"get-nodeid-from-imds":                  false,
	"kubeconfig":                            "",
	"list-vmss-with-instance-view":          false,
	"max-concurrent-format":                 2,
	"max-procs":                             2,
	"metrics-address":                       "",
	"never-stop-taint-removal":              true,
	"nodeid":                                "",
	"pre-stop-hook":                         false,
	"remove-not-ready-taint":                true,
	"reserved-data-disk-slot-num":           0,
	"support-zone":                          true,
	"taint-removal-initial-delay-seconds":   30,
	"traffic-manager-port":                  7788,
	"use-csiproxy-ga-interface":             true,
	"use-win-cim-api":                       true,
	"user-agent-suffix":                     "",
	"version":                               false,
	"vm-type":                               "",
	"vmss-cache-ttl-seconds":                -1,
	"vmss-detach-timeout-seconds":           20,
	"vol-stats-cache-expire-in-minutes":     10,
	"volume-attach-limit":                   -1,
	"wait-for-detach":                       true,
	"wait-for-snapshot-ready":               false,
}

// azureFileFlags are the flags of the Azure File driver in OpenShift 4.21, release 1.34.
var azureFileFlags = map[string]any{
	"allow-empty-cloud-config":                     true,
	"allow-inline-volume-key-access-with-identity": false,
	"append-actimeo-option":                        true,
	"append-closetimeo-option":                     false,
	"append-mount-error-help-link":                 true,
	"append-noresvport-option":                     true,
	"append-nosharesock-option":                    true,
	"azurefile-proxy-endpoint":                     "unix://tmp/azurefile-proxy.sock",
	"cloud-config-secret-name":                     "azure-cloud-provider",
	"cloud-config-secret-namespace":                "kube-system",
	"custom-user-agent":                            "",
	"drivername":                                   "file.csi.azure.com",
	"enable-azurefile-proxy":                       false,
	"enable-get-volume-stats":                      true,
	"enable-kata-cc-mount":                         false,
	"enable-vhd":                                   true,
	"enable-volume-mount-group":                    true,
	"enable-windows-host-process":                  false,
	"endpoint":                                     "unix://tmp/csi.sock",
	"fsgroup-change-policy":                        "",
	"kube-api-burst":                               50,
	"kube-api-qps":                                 25.0,
	"kubeconfig":                                   "",
	"max-procs":                                    2,
	"metrics-address":                              "",
	"nodeid":                                       "",
	"print-volume-stats-call-logs":                 false,
	"remove-smb-mount-on-windows":                  true,
	"sas-token-expiration-minutes":                 1440,
	"skip-matching-tag-cache-expire-in-minutes":    30,
	"use-win-cim-api":                              true,
	"user-agent-suffix":                            "",
	"version":                                      false,
	"vol-stats-cache-expire-in-minutes":            10,
	"wait-for-azcopy-timeout-minutes":              19,
}

// injectorFlags are the flags of OpenShift's program that puts credentials into the configuration of an Azure cloud.
var injectorFlags = map[string]any{
	"cloud-config-file-path":          "/tmp/cloud-config/cloud.conf",
	"creds-path":                      "/etc/azure/credentials",
	"disable-identity-extension-auth": false,
	"enable-azure-workload-identity":  "false",
	"output-file-path":                "/tmp/merged-cloud-config/cloud.conf",
}

// vSphereFlags are the flags of the vSphere driver.
var vSphereFlags = map[string]any{
	"enable-profile-server":    false,
	"fss-name":                 "",
	"fss-namespace":            "",
	"supervisor-fss-name":      "",
	"supervisor-fss-namespace": "",
	"version":                  false,
}

// vSphereSyncerFlags are the flags of the vSphere driver's syncer.
var vSphereSyncerFlags = map[string]any{
	"enable-profile-server":            false,
	"fss-name":                         "",
	"fss-namespace":                    "",
	"leader-election":                  false,
	"leader-election-lease-duration":   15 * time.Second,
	"leader-election-namespace":        "",
	"leader-election-renew-deadline":   10 * time.Second,
	"leader-election-retry-period":     5 * time.Second,
	"operation-mode":                   "METADATA_SYNC",
	"storagequota-sync-interval":       30 * time.Minute,
	"supervisor-fss-name":              "",
	"supervisor-fss-namespace":         "",
	"version":                          false,
	"webhook-client-cert-verification": false,
}
