package openshift45

// inCode are the objects that the operator without assets created in code, in the cloud of an administrator with a
// password: names, labels, selectors, the annotation that marks its objects, the controller's permissions, and the
// pods.
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
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [secrets], verbs: [get, list]}
- {apiGroups: [""], resources: [persistentvolumes], verbs: [get, list, watch, create, delete]}
- {apiGroups: [""], resources: [persistentvolumeclaims], verbs: [get, list, watch, update]}
- {apiGroups: [""], resources: [events], verbs: [list, watch, create, update, patch]}
- {apiGroups: [storage.k8s.io], resources: [storageclasses, csinodes], verbs: [get, list, watch]}
- {apiGroups: [snapshot.storage.k8s.io], resources: [volumesnapshotclasses], verbs: [get, list, watch]}
- {apiGroups: [snapshot.storage.k8s.io], resources: [volumesnapshotcontents], verbs: [create, get, list, watch, update, delete]}
- {apiGroups: [snapshot.storage.k8s.io], resources: [volumesnapshotcontents/status, volumesnapshots/status], verbs: [update]}
- {apiGroups: [snapshot.storage.k8s.io], resources: [volumesnapshots], verbs: [get, list, watch, update]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [create, list, watch, delete, get, update]}
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
rules:
- {apiGroups: [""], resources: [endpoints], verbs: [get, watch, list, delete, update, create]}
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, delete]}
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
      containers:
      - name: provisioner
        image: quay.io/openshift/origin-csi-external-provisioner:latest
        imagePullPolicy: IfNotPresent
        args: [--v=5, --csi-address=$(ADDRESS)]
        env: [{name: ADDRESS, value: "unix:///var/lib/kubelet/plugins/manila.csi.openstack.org/csi-controllerplugin.sock"}]
        securityContext: {privileged: true, allowPrivilegeEscalation: true, capabilities: {add: [SYS_ADMIN]}}
        volumeMounts: [{name: plugin-dir, mountPath: /var/lib/kubelet/plugins/manila.csi.openstack.org}, {name: openstack-certificates, mountPath: /usr/share/pki/ca-trust-source}]
      - name: snapshotter
        image: quay.io/openshift/origin-csi-external-snapshotter:latest
        imagePullPolicy: IfNotPresent
        args: [--v=5, --csi-address=$(ADDRESS)]
        env: [{name: ADDRESS, value: "unix:///var/lib/kubelet/plugins/manila.csi.openstack.org/csi-controllerplugin.sock"}]
        securityContext: {privileged: true, allowPrivilegeEscalation: true, capabilities: {add: [SYS_ADMIN]}}
        volumeMounts: [{name: plugin-dir, mountPath: /var/lib/kubelet/plugins/manila.csi.openstack.org}, {name: openstack-certificates, mountPath: /usr/share/pki/ca-trust-source}]
      - name: nodeplugin
        image: quay.io/openshift/origin-csi-driver-manila:latest
        imagePullPolicy: IfNotPresent
        args: [--v=5, --nodeid=$(NODE_ID), --endpoint=$(CSI_ENDPOINT), --drivername=$(DRIVER_NAME), --share-protocol-selector=$(MANILA_SHARE_PROTO), --fwdendpoint=$(FWD_CSI_ENDPOINT)]
        env:
        - {name: DRIVER_NAME, value: manila.csi.openstack.org}
        - {name: NODE_ID, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        - {name: CSI_ENDPOINT, value: "unix:///var/lib/kubelet/plugins/manila.csi.openstack.org/csi-controllerplugin.sock"}
        - {name: FWD_CSI_ENDPOINT, value: "unix:///var/lib/kubelet/plugins/csi-nfsplugin/csi.sock"}
        - {name: MANILA_SHARE_PROTO, value: NFS}
        securityContext: {privileged: true, allowPrivilegeEscalation: true, capabilities: {add: [SYS_ADMIN]}}
        volumeMounts:
        - {name: plugin-dir, mountPath: /var/lib/kubelet/plugins/manila.csi.openstack.org}
        - {name: fwd-plugin-dir, mountPath: /var/lib/kubelet/plugins/csi-nfsplugin}
        - {name: pod-mounts, mountPath: /var/lib/kubelet/pods, mountPropagation: Bidirectional}
        - {name: openstack-certificates, mountPath: /usr/share/pki/ca-trust-source}
      volumes:
      - {name: plugin-dir, hostPath: {path: /var/lib/kubelet/plugins/manila.csi.openstack.org, type: DirectoryOrCreate}}
      - {name: fwd-plugin-dir, hostPath: {path: /var/lib/kubelet/plugins/csi-nfsplugin, type: Directory}}
      - {name: openstack-certificates, configMap: {name: openstack-certificates, optional: true}}
      - {name: pod-mounts, hostPath: {path: /var/lib/kubelet/pods, type: Directory}}
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
      dnsPolicy: ClusterFirstWithHostNet
      containers:
      - name: registrar
        image: quay.io/openshift/origin-csi-node-driver-registrar:latest
        imagePullPolicy: IfNotPresent
        args: [--v=5, --csi-address=/csi/csi.sock, "--kubelet-registration-path=/var/lib/kubelet/plugins/manila.csi.openstack.org/csi.sock"]
        env: [{name: KUBE_NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        lifecycle: {preStop: {exec: {command: [/bin/sh, -c, "rm -rf /registration/manila.csi.openstack.org /registration/manila.csi.openstack.org-reg.sock"]}}}
        securityContext: {privileged: true, allowPrivilegeEscalation: true, capabilities: {add: [SYS_ADMIN]}}
        volumeMounts: [{name: plugin-dir, mountPath: /csi}, {name: registration-dir, mountPath: /registration}, {name: openstack-certificates, mountPath: /usr/share/pki/ca-trust-source}]
      - name: nodeplugin
        image: quay.io/openshift/origin-csi-driver-manila:latest
        imagePullPolicy: IfNotPresent
        args: [--v=5, --nodeid=$(NODE_ID), --endpoint=$(CSI_ENDPOINT), --drivername=$(DRIVER_NAME), --share-protocol-selector=$(MANILA_SHARE_PROTO), --fwdendpoint=$(FWD_CSI_ENDPOINT)]
        env:
        - {name: DRIVER_NAME, value: manila.csi.openstack.org}
        - {name: NODE_ID, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        - {name: CSI_ENDPOINT, value: "unix:///var/lib/kubelet/plugins/manila.csi.openstack.org/csi.sock"}
        - {name: FWD_CSI_ENDPOINT, value: "unix:///var/lib/kubelet/plugins/csi-nfsplugin/csi.sock"}
        - {name: MANILA_SHARE_PROTO, value: NFS}
        securityContext: {privileged: true, allowPrivilegeEscalation: true, capabilities: {add: [SYS_ADMIN]}}
        volumeMounts:
        - {name: plugin-dir, mountPath: /var/lib/kubelet/plugins/manila.csi.openstack.org}
        - {name: fwd-plugin-dir, mountPath: /var/lib/kubelet/plugins/csi-nfsplugin}
        - {name: openstack-certificates, mountPath: /usr/share/pki/ca-trust-source}
      volumes:
      - {name: plugin-dir, hostPath: {path: /var/lib/kubelet/plugins/manila.csi.openstack.org, type: DirectoryOrCreate}}
      - {name: fwd-plugin-dir, hostPath: {path: /var/lib/kubelet/plugins/csi-nfsplugin, type: Directory}}
      - {name: openstack-certificates, configMap: {name: openstack-certificates, optional: true}}
      - {name: registration-dir, hostPath: {path: /var/lib/kubelet/plugins_registry, type: Directory}}
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
      containers:
      - name: nfs
        image: quay.io/openshift/origin-csi-driver-nfs:latest
        imagePullPolicy: IfNotPresent
        args: [--nodeid=$(NODE_ID), "--endpoint=unix://plugin/csi.sock", --mount-permissions=0777]
        env: [{name: NODE_ID, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        securityContext: {privileged: true, allowPrivilegeEscalation: true, capabilities: {add: [SYS_ADMIN]}}
        volumeMounts: [{name: plugin-dir, mountPath: /plugin}, {name: pods-mount-dir, mountPath: /var/lib/kubelet/pods, mountPropagation: Bidirectional}]
      volumes:
      - {name: plugin-dir, hostPath: {path: /var/lib/kubelet/plugins/csi-nfsplugin, type: DirectoryOrCreate}}
      - {name: pods-mount-dir, hostPath: {path: /var/lib/kubelet/pods, type: Directory}}
`
