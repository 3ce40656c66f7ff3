[ $# -gt 0 ] || set -- @STEPS@
for step; do
  echo "== $step"
  "$step"
done
