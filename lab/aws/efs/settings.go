package efs

import (
	"net/http"

	"github.com/berth-csi/berth/lab/aws/gateway"
)

// described returns the file system whose settings a request asks for.
func (s *Service) described(r *gateway.Request, id string) (*FileSystem, *gateway.Error) {
	if fs := s.fileSystem(r, short(id)); fs != nil {
		return fs, nil
	}
	return nil, noFileSystem(id)
}

func (s *Service) describeReplicationConfigurations(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	fs, err := s.described(r, r.Parameters["FileSystemId"])
	if err != nil {
		return nil, err
	}
	if fs.ReplicatedTo == nil {
		return nil, &gateway.Error{Status: http.StatusNotFound, Code: "ReplicationNotFound", Message: "File system '" + fs.ID + "' has no replication."}
	}
	arn := s.arn(fs.Owner, "file-system", fs.ID)
	return map[string]any{"Replications": []map[string]any{{"SourceFileSystemId": fs.ID, "SourceFileSystemArn": arn, "OriginalSourceFileSystemArn": arn,
		"SourceFileSystemRegion": s.options.Region, "SourceFileSystemOwnerId": fs.Owner, "CreationTime": float64(fs.created.Unix()), "Destinations": []Replica{*fs.ReplicatedTo}}}}, nil
}

func (s *Service) describeFileSystemPolicy(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	fs, err := s.described(r, r.Parameters["Id"])
	if err != nil {
		return nil, err
	}
	if fs.Policy == "" {
		return nil, &gateway.Error{Status: http.StatusNotFound, Code: "PolicyNotFound", Message: "File system '" + fs.ID + "' has no policy."}
	}
	return map[string]string{"FileSystemId": fs.ID, "Policy": fs.Policy}, nil
}

func (s *Service) describeLifecycleConfiguration(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	fs, err := s.described(r, r.Parameters["Id"])
	if err != nil {
		return nil, err
	}
	policies := []map[string]string{}
	for key, after := range map[string]string{"TransitionToIA": fs.ToIA, "TransitionToArchive": fs.ToArchive} {
		if after != "" {
			policies = append(policies, map[string]string{key: after})
		}
	}
	return map[string]any{"LifecyclePolicies": policies}, nil
}

func (s *Service) describeBackupPolicy(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	fs, err := s.described(r, r.Parameters["Id"])
	if err != nil {
		return nil, err
	}
	if !fs.BackedUp {
		return nil, &gateway.Error{Status: http.StatusNotFound, Code: "PolicyNotFound", Message: "File system '" + fs.ID + "' has no backup policy."}
	}
	return map[string]any{"BackupPolicy": map[string]string{"Status": "ENABLED"}}, nil
}
