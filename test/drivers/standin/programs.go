package main

// programs are those that this stands in for, by the names of their files.
var programs = map[string]program{
	"azurediskplugin":                   {flags: azureDiskFlags, klog: true, run: azureDisk},
	"azurefileplugin":                   {flags: azureFileFlags, klog: true, run: azureFile},
	"azure-config-credentials-injector": {flags: injectorFlags, klog: true, run: injectAzureCredentials},
	"vsphere-csi":                       {flags: vSphereFlags, run: vSphere},
	"vsphere-syncer":                    {flags: vSphereSyncerFlags, run: vSphereSyncer},
}
