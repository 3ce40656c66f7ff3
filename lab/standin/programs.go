package main

import "github.com/berth-csi/berth/lab/standin/efs"

// programs are the programs that this stands in for, by the names of their files.
var programs = map[string]program{
	"aws-efs-csi-driver-" + efs.V2.Number: {flags: efsFlags, klog: true, saysVersion: true, run: efsDriver(efs.V2)},
	"aws-efs-csi-driver-" + efs.V3.Number: {flags: laterEFSFlags, klog: true, saysVersion: true, run: efsDriver(efs.V3)},
	"csi-node-driver-registrar":           {flags: registrarFlags, logging: true, run: registrar},
	"livenessprobe":                       {flags: livenessProbeFlags, logging: true, run: livenessProbe},
	"nfsplugin":                           {flags: nfsFlags, klog: true, run: nfsPlugin},
	"azurediskplugin":                     {flags: azureDiskFlags, klog: true, run: azureDisk},
	"azurefileplugin":                     {flags: azureFileFlags, klog: true, run: azureFile},
	"azure-config-credentials-injector":   {flags: injectorFlags, klog: true, run: injectAzureCredentials},
	"vsphere-csi":                         {flags: vSphereFlags, run: vSphere},
	"vsphere-syncer":                      {flags: vSphereSyncerFlags, run: vSphereSyncer},
}
