package metrics

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	configclient "github.com/openshift/client-go/config/clientset/versioned"
	configinformers "github.com/openshift/client-go/config/informers/externalversions"
	configlisters "github.com/openshift/client-go/config/listers/config/v1"
	"github.com/openshift/library-go/pkg/crypto"

	"github.com/berth-csi/berth/operator/transport"
)

// resync is how often the cache of the APIServer is replayed. A watch delivers changes at once.
const resync = 20 * time.Minute

// groups are the groups of a TLS profile that Go supports.
var groups = map[configv1.TLSGroup]tls.CurveID{
	configv1.TLSGroupX25519: tls.X25519, configv1.TLSGroupSecP256r1: tls.CurveP256, configv1.TLSGroupSecP384r1: tls.CurveP384,
	configv1.TLSGroupSecP521r1: tls.CurveP521, configv1.TLSGroupX25519MLKEM768: tls.X25519MLKEM768,
	configv1.TLSGroupSecP256r1MLKEM768: tls.SecP256r1MLKEM768, configv1.TLSGroupSecP384r1MLKEM1024: tls.SecP384r1MLKEM1024,
}

// A profile is the cluster's TLS profile, which an administrator sets in APIServer cluster. Whatever the value of
// spec.tlsAdherence, components that have always followed the profile must follow it. The proxies of the drivers'
// metrics follow it, too.
type profile struct {
	factory configinformers.SharedInformerFactory
	servers configlisters.APIServerLister
	known   func() bool
}

func newProfile(client configclient.Interface) *profile {
	factory := configinformers.NewSharedInformerFactoryWithOptions(client, resync, configinformers.WithTweakListOptions(transport.OnlyName("cluster")))
	servers := factory.Config().V1().APIServers()
	return &profile{factory, servers.Lister(), servers.Informer().HasSynced}
}

// run follows the profile until ctx ends.
func (p *profile) run(ctx context.Context) {
	p.factory.Start(ctx.Done())
	<-ctx.Done()
	p.factory.Shutdown()
}

// apply returns a configuration with the profile. Until the profile is known, the server offers only the newest version
// of TLS, which every profile permits.
func (p *profile) apply(config *tls.Config) *tls.Config {
	config = config.Clone()
	if !p.known() {
		config.MinVersion = tls.VersionTLS13
		return config
	}
	spec := p.spec()
	config.MinVersion = tls.VersionTLS12
	if version, err := crypto.TLSVersion(string(spec.MinTLSVersion)); err == nil {
		config.MinVersion = version
	}
	for _, name := range crypto.OpenSSLToIANACipherSuites(spec.Ciphers) {
		if suite, err := crypto.CipherSuite(name); err == nil {
			config.CipherSuites = append(config.CipherSuites, suite)
		}
	}
	for _, group := range spec.Groups {
		if id, ok := groups[group]; ok {
			config.CurvePreferences = append(config.CurvePreferences, id)
		}
	}
	return config
}

// spec returns the settings of the profile, or of the default profile if none is set.
func (p *profile) spec() configv1.TLSProfileSpec {
	found := configv1.TLSProfiles[crypto.DefaultTLSProfileType]
	server, err := p.servers.Get("cluster")
	if err != nil || server.Spec.TLSSecurityProfile == nil {
		return *found
	}
	switch set := server.Spec.TLSSecurityProfile; {
	case set.Type == configv1.TLSProfileCustomType && set.Custom != nil:
		found = &set.Custom.TLSProfileSpec
	case configv1.TLSProfiles[set.Type] != nil:
		found = configv1.TLSProfiles[set.Type]
	}
	return *found
}

// closing closes each connection that began under another profile, after its next request.
func (p *profile) closing(base *tls.Config, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		config := p.apply(base)
		outdated := r.TLS.Version < config.MinVersion ||
			r.TLS.Version < tls.VersionTLS13 && config.CipherSuites != nil && !slices.Contains(config.CipherSuites, r.TLS.CipherSuite)
		if outdated {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
