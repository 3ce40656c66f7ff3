package main

//lint:file-ignore ST1005 errors are in the words of the real driver, which tests and pages compare

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/berth-csi/berth/lab/standin/efs"
)

// efsFlags are the flags of the EFS driver, version 2.1.11.
var efsFlags = map[string]any{
	"adaptive-retry-mode":              true,
	"delete-access-point-root-dir":     false,
	"efs-utils-config-dir-path":        "/var/amazon/efs",
	"efs-utils-config-legacy-dir-path": "/etc/amazon/efs-legacy",
	"efs-utils-static-files-path":      "/etc/amazon/efs-static-files/",
	"endpoint":                         "unix://tmp/csi.sock",
	"tags":                             "",
	"version":                          false,
	"vol-metrics-fs-rate-limit":        5,
	"vol-metrics-opt-in":               false,
	"vol-metrics-refresh-period":       240.0,
}

// laterEFSFlags are the flags of version 3.4.1.
var laterEFSFlags = with(efsFlags, map[string]any{
	"debug-logs":                         false,
	"efs-cloudwatch-log-enabled":         false,
	"efs-utils-conf-overrides":           "",
	"force-unmount-after-timeout":        false,
	"http-endpoint":                      "",
	"max-inflight-mount-calls":           int64(-1),
	"max-inflight-mount-calls-opt-in":    false,
	"metrics-cert-file":                  "",
	"metrics-key-file":                   "",
	"s3files-cloudwatch-log-enabled":     true,
	"s3files-cloudwatch-metrics-enabled": true,
	"s3files-utils-conf-overrides":       "",
	"unmount-timeout":                    30 * time.Second,
	"volume-attach-limit":                int64(-1),
	"volume-attach-limit-opt-in":         false,
})

func with(all, more map[string]any) map[string]any {
	all = maps.Clone(all)
	maps.Copy(all, more)
	return all
}

// efsDriver is a version of the EFS driver.
func efsDriver(version efs.Version) func(context.Context, *flag.FlagSet) error {
	return func(ctx context.Context, flags *flag.FlagSet) error {
		if valueOf[bool](flags, "version") {
			text, err := json.MarshalIndent(map[string]string{"driverVersion": version.Number, "efsClientSource": "none: a stand-in"}, "", "  ")
			fmt.Println(string(text))
			return err
		}
		options, err := efsOptions(flags)
		if err != nil {
			return fmt.Errorf("Invalid options: %w", err)
		}
		return efs.Run(ctx, version, options)
	}
}

// efsOptions returns the options from a version's flags.
func efsOptions(flags *flag.FlagSet) (efs.Options, error) {
	minutes := valueOf[float64](flags, "vol-metrics-refresh-period")
	o := efs.Options{
		Endpoint: valueOf[string](flags, "endpoint"), Tags: valueOf[string](flags, "tags"),
		DeleteRootDir: valueOf[bool](flags, "delete-access-point-root-dir"), AdaptiveRetry: valueOf[bool](flags, "adaptive-retry-mode"),
		Volumes: efs.VolumeMetrics{On: valueOf[bool](flags, "vol-metrics-opt-in"), Refresh: time.Duration(minutes * float64(time.Minute)), AtOnce: valueOf[int](flags, "vol-metrics-fs-rate-limit")},
	}
	if flags.Lookup("http-endpoint") == nil {
		return o, nil // all that the earlier version has
	}
	o.Metrics = efs.Metrics{Address: valueOf[string](flags, "http-endpoint"), Certificate: valueOf[string](flags, "metrics-cert-file"), Key: valueOf[string](flags, "metrics-key-file")}
	for optIn, to := range map[string]*int64{"volume-attach-limit": &o.MostVolumes, "max-inflight-mount-calls": &o.MostMounts} {
		if !valueOf[bool](flags, optIn+"-opt-in") {
			continue
		}
		if *to = valueOf[int64](flags, optIn); *to <= 0 {
			return o, fmt.Errorf("--%s-opt-in is true, but --%s is not set to a positive value", optIn, optIn)
		}
	}
	return o, errors.Join(checkOverrides(flags, "efs-utils-conf-overrides"), checkOverrides(flags, "s3files-utils-conf-overrides"))
}

// checkOverrides fails unless a flag is a list such as "section:key=value,section:key=value".
func checkOverrides(flags *flag.FlagSet, name string) error {
	for entry := range strings.SplitSeq(valueOf[string](flags, name), ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		section, setting, separated := strings.Cut(entry, ":")
		if key, _, assigned := strings.Cut(setting, "="); !separated || !assigned || section == "" || key == "" {
			return fmt.Errorf("invalid %s: invalid override entry %q: want section:key=value", name, entry)
		}
	}
	return nil
}
