package openshift45

// inCode is what the operator that has no assets made in code: names, labels, selectors, the annotation that marks its objects,
// and of the pods what a takeover depends on.
const inCode = `
{apiVersion: v1, kind: Namespace, metadata: {name: openshift-manila-csi-driver}}
---
apiVersion: security.openshift.io/v1
kind: SecurityContextConstraints
metadata: {name: csi-driver-manila-operator, annotations: {manila.csi.openshift.io/last-applied: "{}"}}
allowPrivilegedContainer: true
allowHostDirVolumePlugin: true
allowHostIPC: true
allowHostNetwork: true
allowHostPID: false
allowHostPorts: false
readOnlyRootFilesystem: false
runAsUser: {type: RunAsAny}
seLinuxContext: {type: RunAsAny}
fsGroup: {type: RunAsAny}
supplementalGroups: {type: RunAsAny}
users:
- system:serviceaccount:openshift-manila-csi-driver:csi-nodeplugin
- system:serviceaccount:openshift-manila-csi-driver:openstack-manila-csi-controllerplugin
- system:serviceaccount:openshift-manila-csi-driver:openstack-manila-csi-nodeplugin
volumes: ["*"]
allowedCapabilities: [SYS_ADMIN]
defaultAddCapabilities: []
requiredDropCapabilities: []
priority: null
---
{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: openshift-manila-csi-driver, name: openstack-manila-csi-controllerplugin}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: openshift-manila-csi-driver, name: openstack-manila-csi-nodeplugin}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: openshift-manila-csi-driver, name: csi-nodeplugin}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: openstack-manila-csi-controllerplugin, labels: {app: openstack-manila-csi, component: controllerplugin}, annotations: {manila.csi.openshift.io/last-applied: "{}"}}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: openstack-manila-csi-controllerplugin, labels: {app: openstack-manila-csi, component: controllerplugin}, annotations: {manila.csi.openshift.io/last-applied: "{}"}}
subjects: [{kind: ServiceAccount, namespace: openshift-manila-csi-driver, name: openstack-manila-csi-controllerplugin}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: openstack-manila-csi-controllerplugin}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: openstack-manila-csi-nodeplugin, labels: {app: openstack-manila-csi, component: nodeplugin}, annotations: {manila.csi.openshift.io/last-applied: "{}"}}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: openstack-manila-csi-nodeplugin, labels: {app: openstack-manila-csi, component: nodeplugin}, annotations: {manila.csi.openshift.io/last-applied: "{}"}}
subjects: [{kind: ServiceAccount, namespace: openshift-manila-csi-driver, name: openstack-manila-csi-nodeplugin}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: openstack-manila-csi-nodeplugin}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: csi-nodeplugin, labels: {app: openstack-manila-csi, component: nfs-nodeplugin}, annotations: {manila.csi.openshift.io/last-applied: "{}"}}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: csi-nodeplugin, labels: {app: openstack-manila-csi, component: nfs-nodeplugin}, annotations: {manila.csi.openshift.io/last-applied: "{}"}}
subjects: [{kind: ServiceAccount, namespace: openshift-manila-csi-driver, name: csi-nodeplugin}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: csi-nodeplugin}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: openshift-manila-csi-driver, name: openstack-manila-csi-controllerplugin, annotations: {manila.csi.openshift.io/last-applied: "{}"}}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: openshift-manila-csi-driver, name: openstack-manila-csi-controllerplugin, annotations: {manila.csi.openshift.io/last-applied: "{}"}}
subjects: [{kind: ServiceAccount, namespace: openshift-manila-csi-driver, name: openstack-manila-csi-controllerplugin}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: openstack-manila-csi-controllerplugin}
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: manila.csi.openstack.org, annotations: {manila.csi.openshift.io/last-applied: "{}"}}
spec: {attachRequired: false, podInfoOnMount: false}
---
apiVersion: v1
kind: Secret
metadata: {namespace: openshift-manila-csi-driver, name: csi-manila-secrets, annotations: {manila.csi.openshift.io/last-applied: "{}"}}
stringData:
  os-authURL: "https://keystone.example.com/v3"
  os-region: RegionOne
  os-userName: admin
  os-password: secret
  os-projectName: admin
  os-domainName: Default
  os-projectDomainName: Default
  os-userDomainName: Default
  os-certAuthorityPath: /usr/share/pki/ca-trust-source/cloud-provider-ca-bundle.pem
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: openshift-manila-csi-driver, name: openstack-certificates}, data: {cloud-provider-ca-bundle.pem: ""}}
---
apiVersion: cloudcredential.openshift.io/v1
kind: CredentialsRequest
metadata: {namespace: openshift-cloud-credential-operator, name: manila-csi-credentials-request, annotations: {manila.csi.openshift.io/last-applied: "{}"}}
spec:
  secretRef: {namespace: openshift-manila-csi-driver, name: installer-cloud-credentials}
  providerSpec: {apiVersion: cloudcredential.openshift.io/v1, kind: OpenStackProviderSpec}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: csi-manila-default, annotations: {manila.csi.openshift.io/last-applied: "{}"}}
provisioner: manila.csi.openstack.org
parameters:
  type: default
  csi.storage.k8s.io/provisioner-secret-name: csi-manila-secrets
  csi.storage.k8s.io/provisioner-secret-namespace: openshift-manila-csi-driver
  csi.storage.k8s.io/node-stage-secret-name: csi-manila-secrets
  csi.storage.k8s.io/node-stage-secret-namespace: openshift-manila-csi-driver
  csi.storage.k8s.io/node-publish-secret-name: csi-manila-secrets
  csi.storage.k8s.io/node-publish-secret-namespace: openshift-manila-csi-driver
---
apiVersion: apps/v1
kind: Deployment
metadata:
  namespace: openshift-manila-csi-driver
  name: openstack-manila-csi-controllerplugin
  labels: {app: openstack-manila-csi, component: controllerplugin}
  annotations: {manila.csi.openshift.io/last-applied: "{}"}
spec:
  replicas: 1
  selector: {matchLabels: {app: openstack-manila-csi, component: controllerplugin}}
  template:
    metadata: {labels: {app: openstack-manila-csi, component: controllerplugin}}
    spec:
      serviceAccountName: openstack-manila-csi-controllerplugin
      containers: [{name: provisioner, image: "quay.io/openshift/origin-csi-external-provisioner:latest"}, {name: nodeplugin, image: "quay.io/openshift/origin-csi-driver-manila:latest"}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  namespace: openshift-manila-csi-driver
  name: openstack-manila-csi-nodeplugin
  labels: {app: openstack-manila-csi, component: nodeplugin}
  annotations: {manila.csi.openshift.io/last-applied: "{}"}
spec:
  selector: {matchLabels: {app: openstack-manila-csi, component: nodeplugin}}
  template:
    metadata: {labels: {app: openstack-manila-csi, component: nodeplugin}}
    spec:
      serviceAccountName: openstack-manila-csi-nodeplugin
      hostNetwork: true
      containers: [{name: registrar, image: "quay.io/openshift/origin-csi-node-driver-registrar:latest"}, {name: nodeplugin, image: "quay.io/openshift/origin-csi-driver-manila:latest"}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  namespace: openshift-manila-csi-driver
  name: csi-nodeplugin-nfsplugin
  labels: {app: openstack-manila-csi, component: nfs-nodeplugin}
  annotations: {manila.csi.openshift.io/last-applied: "{}"}
spec:
  selector: {matchLabels: {app: openstack-manila-csi, component: nfs-nodeplugin}}
  template:
    metadata: {labels: {app: openstack-manila-csi, component: nfs-nodeplugin}}
    spec:
      serviceAccountName: csi-nodeplugin
      hostNetwork: true
      containers: [{name: nfs, image: "quay.io/openshift/origin-csi-driver-nfs:latest"}]
`
