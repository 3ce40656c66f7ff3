package ec2

import "github.com/berth-csi/berth/lab/aws/gateway"

// limit holds the limits of a volume type. Sizes are in GiB, throughputs in MiB/s.
type limit struct {
	minSize, maxSize             int32
	minIOPS, maxIOPS, iopsPerGiB int32 // zero for types whose IOPS cannot be chosen
	needsIOPS                    bool
	minThroughput, maxThroughput int32
	multiAttach                  bool
	defaultIOPS                  func(size int32) int32
}

// limits are from "Amazon EBS volume types" of the EBS user guide.
var limits = map[string]limit{
	"gp3": {minSize: 1, maxSize: 65536, minIOPS: 3000, maxIOPS: 80000, iopsPerGiB: 500, minThroughput: 125, maxThroughput: 2000,
		defaultIOPS: func(int32) int32 { return 3000 }},
	"gp2":      {minSize: 1, maxSize: 16384, defaultIOPS: func(size int32) int32 { return min(max(3*size, 100), 16000) }},
	"io1":      {minSize: 4, maxSize: 16384, minIOPS: 100, maxIOPS: 64000, iopsPerGiB: 50, needsIOPS: true, multiAttach: true},
	"io2":      {minSize: 4, maxSize: 65536, minIOPS: 100, maxIOPS: 256000, iopsPerGiB: 1000, needsIOPS: true, multiAttach: true},
	"st1":      {minSize: 125, maxSize: 16384},
	"sc1":      {minSize: 125, maxSize: 16384},
	"standard": {minSize: 1, maxSize: 1024},
}

// shape checks a volume's type, size and performance, and fills in the defaults.
func shape(v *Volume) *gateway.Error {
	l, ok := limits[v.Type]
	if !ok {
		return gateway.Errorf("UnknownVolumeType", "Unknown volume type '%s'", v.Type)
	}
	switch {
	case v.Size < l.minSize:
		return gateway.Errorf("InvalidParameterValue", "Volume of %dGiB is too small for volume type %s; minimum is %dGiB.", v.Size, v.Type, l.minSize)
	case v.Size > l.maxSize:
		return gateway.Errorf("InvalidParameterValue", "Volume of %dGiB is too large for volume type %s; maximum is %dGiB.", v.Size, v.Type, l.maxSize)
	case v.MultiAttach && !l.multiAttach:
		return gateway.Errorf("InvalidParameterCombination", "Multi-Attach is not supported for %s volumes.", v.Type)
	}
	if err := l.iops(v); err != nil {
		return err
	}
	switch {
	case v.Throughput != 0 && l.maxThroughput == 0:
		return gateway.Errorf("InvalidParameterCombination", "The parameter throughput is not supported for %s volumes.", v.Type)
	case v.Throughput > l.maxThroughput:
		return gateway.Errorf("InvalidParameterValue", "Volume throughput of %d MiB/s is too high; maximum is %d MiB/s.", v.Throughput, l.maxThroughput)
	case v.Throughput != 0 && v.Throughput < l.minThroughput:
		return gateway.Errorf("InvalidParameterValue", "Volume throughput of %d MiB/s is too low; minimum is %d MiB/s.", v.Throughput, l.minThroughput)
	case v.Throughput > v.IOPS/4 && v.Throughput > l.minThroughput:
		return gateway.Errorf("InvalidParameterCombination", "Throughput (MiB/s) to iops ratio of %.4f is too high; maximum is 0.25.", float64(v.Throughput)/float64(v.IOPS))
	}
	if v.Throughput == 0 {
		v.Throughput = l.minThroughput
	}
	return nil
}

// iops checks the IOPS of a volume. The EBS driver reads the highest possible number out of the messages.
func (l limit) iops(v *Volume) *gateway.Error {
	switch {
	case v.IOPS == 0 && l.needsIOPS:
		return gateway.Errorf("MissingParameter", "The request must contain the parameter iops")
	case v.IOPS == 0:
		if l.defaultIOPS != nil {
			v.IOPS = l.defaultIOPS(v.Size)
		}
		return nil
	case l.maxIOPS == 0:
		return gateway.Errorf("InvalidParameterCombination", "The parameter iops is not supported for %s volumes.", v.Type)
	case v.Type == "io2" && (v.IOPS > l.maxIOPS || v.IOPS > l.iopsPerGiB*v.Size):
		return gateway.Errorf("InvalidParameterCombination", "io2 volumes configured with greater than 64 TiB or 256K IOPS or 1000:1 IOPS:GB ratio are not supported")
	case v.IOPS > l.maxIOPS:
		return gateway.Errorf("InvalidParameterValue", "Volume iops of %d is too high; maximum is %d.", v.IOPS, l.maxIOPS)
	case v.IOPS < l.minIOPS:
		return gateway.Errorf("InvalidParameterValue", "Volume iops of %d is too low; minimum is %d.", v.IOPS, l.minIOPS)
	case v.IOPS > max(l.iopsPerGiB*v.Size, l.minIOPS):
		return gateway.Errorf("InvalidParameterValue", "Iops to volume size ratio of %.1f is too high; maximum is %d.", float64(v.IOPS)/float64(v.Size), l.iopsPerGiB)
	}
	return nil
}
