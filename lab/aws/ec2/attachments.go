package ec2

import (
	"regexp"
	"slices"
	"time"

	"github.com/berth-csi/berth/lab/aws/gateway"
)

// maxMultiAttach is how many instances a volume with Multi-Attach can be attached to.
const maxMultiAttach = 16

// devices are the names that instances accept for volumes.
var devices = regexp.MustCompile(`^/dev/(sd[a-z]|xvd[a-z]|xvd[a-d][a-z])$`)

// Attachment attaches a volume to an instance.
type Attachment struct {
	InstanceID string
	// Device is the name that was asked for, such as "/dev/xvdaa".
	Device string
	Time   time.Time

	ready time.Time // zero until the device is there
	gone  time.Time // zero until the device is not there anymore
	ends  bool
}

func (s *Service) attachmentState(a Attachment) string {
	switch {
	case a.ends:
		return "detaching"
	case !settled(a.ready):
		return "attaching"
	}
	return "attached"
}

type attachmentItem struct {
	VolumeID            string `xml:"volumeId"`
	InstanceID          string `xml:"instanceId"`
	Device              string `xml:"device"`
	State               string `xml:"status"`
	Time                string `xml:"attachTime"`
	DeleteOnTermination bool   `xml:"deleteOnTermination"`
}

func (s *Service) attachmentItem(volumeID string, a Attachment, state string) attachmentItem {
	return attachmentItem{VolumeID: volumeID, InstanceID: a.InstanceID, Device: a.Device, State: state, Time: timestamp(a.Time)}
}

type attachmentResult struct {
	reply
	attachmentItem
}

func (s *Service) attachVolume(r *gateway.Request) (any, *gateway.Error) {
	id, a := r.Parameters["VolumeId"], Attachment{InstanceID: r.Parameters["InstanceId"], Device: r.Parameters["Device"], Time: time.Now()}
	s.lock()
	v, err := s.attachable(id, a)
	if err == nil {
		err = dryRun(r)
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	v.Attachments = append(v.Attachments, a)
	disk := v.copy()
	s.mu.Unlock()

	if s.disks(func(d Disks) error { return d.Attach(disk, a) }) == nil {
		s.lock()
		defer s.mu.Unlock()
		if at := v.attachedTo(a.InstanceID); at >= 0 {
			v.Attachments[at].ready = time.Now().Add(s.options.Settle)
		}
	}
	return &attachmentResult{attachmentItem: s.attachmentItem(id, a, "attaching")}, nil
}

// attachedTo returns the index of the attachment to an instance, or -1.
func (v *Volume) attachedTo(instance string) int {
	return slices.IndexFunc(v.Attachments, func(a Attachment) bool { return a.InstanceID == instance })
}

// attachable returns the volume if the attachment is possible. The caller holds the lock.
func (s *Service) attachable(id string, a Attachment) (*Volume, *gateway.Error) {
	i, ok := s.instances[a.InstanceID]
	if !ok {
		return nil, noInstance(a.InstanceID)
	}
	v, ok := s.volumes[id]
	switch {
	case !ok:
		return nil, noVolume(id)
	case !devices.MatchString(a.Device):
		return nil, gateway.Errorf("InvalidParameterValue", "Value (%s) for parameter device is invalid. %s is not a valid EBS device name.", a.Device, a.Device)
	case v.Zone != i.Zone:
		return nil, gateway.Errorf("InvalidVolume.ZoneMismatch", "The volume '%s' is not in the same availability zone as instance '%s'", id, i.ID)
	case s.state(v) == "creating":
		return nil, gateway.Errorf("IncorrectState", "%s is not 'available'.", id)
	case len(v.Attachments) > 0 && !v.MultiAttach, v.attachedTo(i.ID) >= 0:
		return nil, gateway.Errorf("VolumeInUse", "%s is already attached to an instance", id)
	case len(v.Attachments) >= maxMultiAttach:
		return nil, gateway.Errorf("VolumeInUse", "%s is attached to %d instances, which is the maximum", id, maxMultiAttach)
	}
	used := []string{rootDevice}
	for _, other := range s.volumes {
		if at := other.attachedTo(i.ID); at >= 0 {
			used = append(used, other.Attachments[at].Device)
		}
	}
	switch limit := s.types[i.Type].Attachments; {
	case slices.Contains(used, a.Device):
		return nil, gateway.Errorf("InvalidParameterValue", "Invalid value '%s' for unixDevice. Attachment point %s is already in use", a.Device, a.Device)
	case len(used)+1 >= limit: // one for the network interface
		return nil, gateway.Errorf("AttachmentLimitExceeded", "The instance %s has the maximum number of attachments, %d, network interfaces included", i.ID, limit)
	}
	return v, nil
}

func (s *Service) detachVolume(r *gateway.Request) (any, *gateway.Error) {
	id, instance := r.Parameters["VolumeId"], r.Parameters["InstanceId"]
	s.lock()
	v, at, err := s.detachable(id, instance, r.Parameters["Device"])
	if err == nil {
		err = dryRun(r)
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	v.Attachments[at].ends = true
	a, disk := v.Attachments[at], v.copy()
	s.mu.Unlock()

	if err := s.disks(func(d Disks) error { return d.Detach(disk, a) }); err == nil {
		s.lock()
		defer s.mu.Unlock()
		if at := v.attachedTo(a.InstanceID); at >= 0 {
			v.Attachments[at].gone = time.Now().Add(s.options.Settle)
		}
	}
	return &attachmentResult{attachmentItem: s.attachmentItem(id, a, "detaching")}, nil
}

// detachable returns the volume and the index of the attachment that a request is for. The caller holds the lock.
func (s *Service) detachable(id, instance, device string) (*Volume, int, *gateway.Error) {
	v, ok := s.volumes[id]
	switch {
	case !ok:
		return nil, 0, noVolume(id)
	case len(v.Attachments) == 0:
		return nil, 0, gateway.Errorf("IncorrectState", "Volume '%s' is in the '%s' state.", id, s.state(v))
	case instance == "" && len(v.Attachments) > 1:
		return nil, 0, gateway.Errorf("MissingParameter", "The request must contain the parameter InstanceId, because the volume '%s' has several attachments", id)
	case instance == "":
		instance = v.Attachments[0].InstanceID
	}
	if _, ok := s.instances[instance]; !ok {
		return nil, 0, noInstance(instance)
	}
	at := v.attachedTo(instance)
	if at < 0 || device != "" && v.Attachments[at].Device != device {
		return nil, 0, gateway.Errorf("InvalidAttachment.NotFound", "The volume '%s' is not attached to instance '%s'", id, instance)
	}
	return v, at, nil
}
