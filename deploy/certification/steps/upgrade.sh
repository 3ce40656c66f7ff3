# write starts a pod that appends the time to a file on a volume of the driver, ten times a second. It fails if a write fails.
write() {
  oc create namespace certification-writer
  oc -n certification-writer create -f - <<END
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
spec:
  storageClassName: $1
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata:
  name: writer
spec:
  restartPolicy: Never
  containers:
    - name: writer
      image: registry.access.redhat.com/ubi9/ubi-minimal
      command: [bash, -euc, "while :; do date +%s | tee -a /data/log; sync /data/log; sleep 0.1; done"]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes:
    - name: data
      persistentVolumeClaim: {claimName: data}
END
  oc -n certification-writer wait pod writer --for=condition=Ready --timeout=10m
}

# check-writer fails if the writer has ended, or has not written for ten seconds. The last line is the present time of its node.
check-writer() {
  oc -n certification-writer wait pod writer --for=jsonpath='{.status.phase}'=Running --timeout=1s
  { oc -n certification-writer logs writer; oc -n certification-writer exec writer -- date +%s; } |
    awk 'NR > 1 && $1 - last > 10 { print "no write between " last " and " $1; failed = 1 } { last = $1 } END { exit failed }'
}

writer-class() {
  if [ -e "$here/@STORAGE_CLASS_FILE@" ]; then
    oc create --dry-run=client -f "$here/@STORAGE_CLASS_FILE@" -o 'jsonpath={.metadata.name}'
  else
    echo @CLASS@
  fi
}

upgrade() {
  local before
  before=$(installed)
  write "$(writer-class)"
  subscribe "${NEXT_CATALOG:?want the image of the catalog with the version to update to, by digest}"
  for _ in $(seq 90); do
    [ "$(installed)" = "$before" ] || break
    sleep 10
  done
  if [ "$(installed)" = "$before" ]; then
    echo "after a quarter of an hour, OLM has not replaced $before: does the catalog have a version that updates it?" >&2
    return 1
  fi
  await-driver
  check-writer
}
