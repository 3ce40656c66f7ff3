package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// volumes maintains the volumes of a pod: a folder for each, below dir.
type volumes struct {
	dir    string
	from   objects
	client kubernetes.Interface

	// mu guards tokens and the folders.
	mu     sync.Mutex
	tokens map[string]token
}

// token is the pod's current service account token.
type token struct {
	value   string
	renewAt time.Time
}

func newVolumes(dir string, from objects, client kubernetes.Interface) *volumes {
	return &volumes{dir: dir, from: from, client: client, tokens: map[string]token{}}
}

// sync updates volumes from their objects. It must be called again before renewAt, which is zero if no volume has a
// token.
func (v *volumes) sync(ctx context.Context, pod *corev1.Pod, names map[string]bool) (renewAt time.Time, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var failures error
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if !names[volume.Name] {
			continue
		}
		if err := v.syncVolume(ctx, pod, volume); err != nil {
			failures = errors.Join(failures, fmt.Errorf("volume %s: %w", volume.Name, err))
		}
	}
	for _, token := range v.tokens {
		if renewAt.IsZero() || token.renewAt.Before(renewAt) {
			renewAt = token.renewAt
		}
	}
	return renewAt, failures
}

func (v *volumes) syncVolume(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	if volume.HostPath != nil {
		_, err := os.Stat(volume.HostPath.Path)
		return err
	}
	folder := v.folder(volume.Name)
	if err := os.MkdirAll(folder, 0o777); err != nil || volume.EmptyDir != nil {
		return err
	}
	content, err := v.content(ctx, pod, volume)
	if err != nil {
		return err
	}
	return content.write(folder)
}

func (v *volumes) folder(name string) string { return filepath.Join(v.dir, name) }

// content returns the current content of a volume.
func (v *volumes) content(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) (payload, error) {
	switch {
	case volume.ConfigMap != nil:
		source := volume.ConfigMap
		data, err := v.from.configMap(pod.Namespace, source.Name, source.Optional)
		return projection("ConfigMap "+source.Name, data, err, source.Items, source.Optional, source.DefaultMode)
	case volume.Secret != nil:
		source := volume.Secret
		data, err := v.from.secret(pod.Namespace, source.SecretName, source.Optional)
		return projection("Secret "+source.SecretName, data, err, source.Items, source.Optional, source.DefaultMode)
	case volume.DownwardAPI != nil:
		return downwardAPI(pod, volume.DownwardAPI.Items, volume.DownwardAPI.DefaultMode)
	case volume.Projected != nil:
		content := payload{}
		for i, source := range volume.Projected.Sources {
			part, err := v.projected(ctx, pod, volume, source)
			if err != nil {
				return nil, fmt.Errorf("projected.sources[%d]: %w", i, err)
			}
			maps.Copy(content, part)
		}
		return content, nil
	}
	return nil, errors.New("the process node provides configMap, secret, downwardAPI, projected, emptyDir and hostPath volumes, and this one has none of these sources")
}

func (v *volumes) projected(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, source corev1.VolumeProjection) (payload, error) {
	mode := volume.Projected.DefaultMode
	switch {
	case source.ConfigMap != nil:
		data, err := v.from.configMap(pod.Namespace, source.ConfigMap.Name, source.ConfigMap.Optional)
		return projection("ConfigMap "+source.ConfigMap.Name, data, err, source.ConfigMap.Items, source.ConfigMap.Optional, mode)
	case source.Secret != nil:
		data, err := v.from.secret(pod.Namespace, source.Secret.Name, source.Secret.Optional)
		return projection("Secret "+source.Secret.Name, data, err, source.Secret.Items, source.Secret.Optional, mode)
	case source.DownwardAPI != nil:
		return downwardAPI(pod, source.DownwardAPI.Items, mode)
	case source.ServiceAccountToken != nil:
		value, err := v.token(ctx, pod, volume.Name, source.ServiceAccountToken)
		return payload{source.ServiceAccountToken.Path: {[]byte(value), 0o600}}, err
	}
	return nil, errors.New("the process node projects configMap, secret, downwardAPI and serviceAccountToken, and this source is none of them")
}

// token gives the token that the pod holds, or asks the API server for one that is bound to the pod
// and so ends with it.
func (v *volumes) token(ctx context.Context, pod *corev1.Pod, volume string, source *corev1.ServiceAccountTokenProjection) (string, error) {
	key := volume + "/" + source.Path
	if held, found := v.tokens[key]; found && time.Now().Before(held.renewAt) {
		return held.value, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: source.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	if source.Audience != "" {
		request.Spec.Audiences = []string{source.Audience}
	}
	account := cmp.Or(pod.Spec.ServiceAccountName, "default")
	asked := time.Now()
	answer, err := v.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token of service account %s: %w", account, err)
	}
	// A kubelet renews a token when four fifths of its life are over.
	life := answer.Status.ExpirationTimestamp.Sub(asked)
	v.tokens[key] = token{value: answer.Status.Token, renewAt: asked.Add(life * 4 / 5)}
	return answer.Status.Token, nil
}

// projection chooses the items of an object's data; without items, all data.
func projection(what string, data map[string][]byte, err error, items []corev1.KeyToPath, optional *bool, defaultMode *int32) (payload, error) {
	if err != nil {
		return nil, err
	}
	content := payload{}
	if len(items) == 0 {
		for key, value := range data {
			content[key] = payloadFile{value, fileMode(nil, defaultMode)}
		}
		return content, nil
	}
	for _, item := range items {
		value, found := data[item.Key]
		switch {
		case found:
			content[item.Path] = payloadFile{value, fileMode(item.Mode, defaultMode)}
		case !isTrue(optional):
			return nil, fmt.Errorf("%s has no key %s", what, item.Key)
		}
	}
	return content, nil
}

func downwardAPI(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, defaultMode *int32) (payload, error) {
	content := payload{}
	for _, item := range items {
		var value string
		var err error
		if item.FieldRef != nil {
			value, err = fieldValue(pod, item.FieldRef.FieldPath)
		} else {
			value, err = resourceValue(pod, nil, item.ResourceFieldRef)
		}
		if err != nil {
			return nil, fmt.Errorf("downwardAPI %s: %w", item.Path, err)
		}
		content[item.Path] = payloadFile{[]byte(value), fileMode(item.Mode, defaultMode)}
	}
	return content, nil
}

func fileMode(mode, defaultMode *int32) fs.FileMode {
	for _, m := range []*int32{mode, defaultMode} {
		if m != nil {
			return fs.FileMode(*m) & fs.ModePerm
		}
	}
	return 0o644
}

// mounts returns the container's mounts of the pod's volumes, parents before their children.
func (v *volumes) mounts(pod *corev1.Pod, container *corev1.Container, vars map[string]string) ([]mount, error) {
	var mounts []mount
	for _, m := range container.VolumeMounts {
		i := slices.IndexFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool { return volume.Name == m.Name })
		if i < 0 {
			return nil, fmt.Errorf("volumeMount %s: the pod has no volume of this name", m.Name)
		}
		volume := &pod.Spec.Volumes[i]
		source := v.folder(m.Name)
		if volume.HostPath != nil {
			source = volume.HostPath.Path
		}
		writable := volume.HostPath != nil || volume.EmptyDir != nil
		if sub := cmp.Or(m.SubPath, expand(m.SubPathExpr, vars)); sub != "" {
			source = filepath.Join(source, filepath.Clean("/"+sub))
			if _, err := os.Stat(source); errors.Is(err, fs.ErrNotExist) && writable {
				err = os.MkdirAll(source, 0o777)
				if err != nil {
					return nil, fmt.Errorf("volumeMount %s: %w", m.Name, err)
				}
			}
		}
		mounts = append(mounts, mount{Source: source, Target: filepath.Clean(m.MountPath), ReadOnly: m.ReadOnly || !writable})
	}
	slices.SortFunc(mounts, func(a, b mount) int { return strings.Compare(a.Target, b.Target) })
	return mounts, nil
}

// mountedVolumes returns the names of the volumes that the containers mount.
func mountedVolumes(containers []*container) map[string]bool {
	names := map[string]bool{}
	for _, c := range containers {
		for _, m := range c.spec.VolumeMounts {
			names[m.Name] = true
		}
	}
	return names
}
