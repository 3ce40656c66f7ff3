package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator"
	"github.com/berth-csi/berth/sharedvolume"
)

// companions are the controllers that serve APIs of a driver, each with its flags, by the name of an API's
// CustomResourceDefinition. One that is nil is served by the controller of another API.
var companions = map[string]func(*pflag.FlagSet) operator.Companion{
	"sharedvolumes.aws-efs.managed.openshift.io":        serveSharedVolumes,
	"sharedvolumegrants.aws-efs.managed.openshift.io":   nil,
	"sharedvolumepolicies.aws-efs.managed.openshift.io": nil,
}

func companionsOf(d drivers.Driver, flags *pflag.FlagSet) ([]operator.Companion, error) {
	apis, err := d.ServedAPIs()
	if err != nil {
		return nil, err
	}
	var found []operator.Companion
	for _, api := range apis {
		companion, ok := companions[api]
		if !ok {
			return nil, fmt.Errorf("driver %s brings the API %s, but this build has no controller for it", d.Name, api)
		}
		if companion != nil {
			found = append(found, companion(flags))
		}
	}
	return found, nil
}

// serveSharedVolumes serves the SharedVolumes of users, who may make thousands at once. The workers bound
// how much is asked of the API server at a time; how fast it answers, it decides itself.
func serveSharedVolumes(flags *pflag.FlagSet) operator.Companion {
	options := sharedvolume.Options{Workers: sharedvolume.DefaultWorkers}
	flags.IntVar(&options.Workers, "shared-volume-workers", options.Workers, "`NUMBER` of SharedVolumes to work on at the same time")
	allowed := limits{burst: 100}
	allowed.addFlags(flags, "shared-volume-", "about SharedVolumes")
	return operator.Companion{Prepare: sharedvolume.Prepare, Run: func(ctx context.Context, cfg *rest.Config) error {
		if options.Workers < 1 {
			return fmt.Errorf("--shared-volume-workers is %d, want 1 or more", options.Workers)
		}
		return sharedvolume.Run(ctx, allowed.applyTo(cfg), options)
	}}
}

// limits are how many requests a client may make of the API server.
type limits struct {
	qps   float32 // a second; 0 for any number
	burst int     // at once, where qps is limited
}

func (l *limits) addFlags(flags *pflag.FlagSet, prefix, about string) {
	flags.Float32Var(&l.qps, prefix+"kube-api-qps", l.qps, "`NUMBER` of requests a second to the API server "+about+"; 0 for no limit")
	flags.IntVar(&l.burst, prefix+"kube-api-burst", l.burst, "`NUMBER` of these requests that may come at once, if there is a limit a second")
}

// applyTo returns a client configuration with the limits.
func (l limits) applyTo(cfg *rest.Config) *rest.Config {
	limited := rest.CopyConfig(cfg)
	limited.QPS, limited.Burst = l.qps, l.burst
	if l.qps == 0 {
		limited.QPS = -1 // 0 would be the client's own default
	}
	return limited
}
