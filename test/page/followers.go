package page

var (
	byHand        = by("test/e2e", "TestSwitchByHand", "TestSwitchWithKilledOperator")
	switchPage    = by("test/e2e", "TestFollowSwitchPage") // make prove SUITE=pages
	move          = by("test/e2e", "TestMoveOver")         // make prove SUITE=pages
	cloud         = by("internal/aws/provision", "TestRequestFor")
	onAndOff      = by("migrate/csimigration", "TestOnAndOff")
	defaultClass  = by("test/clusterstorage", "TestDefaultClass")
	refusals      = by("test/clusterstorage", "TestAdoptionRefusals")
	transcripts   = by("cmd/berth", "TestPages")
	commands      = by("cmd/berth", "TestPageCommands")
	administrator = by("test/e2e", "TestFollowPages") // make prove SUITE=pages
	extension     = by("test/drivers/continuity", "TestEFSOfOLMv1", "TestPublishedRelease")
	moves         = by("migrate/move", "TestFollowPage")
	published     = by("test/drivers/continuity", "TestPublishedRelease")

	drawing = nobody("a drawing or an output, without commands")
)

// followers says, for each block of shell commands of each page, by its heading and in its order, which tests run it, or why none
// does.
var followers = map[string]map[string][]follower{
	"README.md": {
		"## Catalogs: any operator, no cluster, nothing is changed": {nobody("installs what is not published yet, and reads a public catalog; cmd/berth TestPages runs these commands with others")},
		"## Drivers: on a local cluster first, then on yours":       {nobody("downloads and compiles a control plane, and runs all tests; .ci/run runs each")},
	},
	"adopt.md": {
		"# Hand a driver over to the cluster storage operator": {refusals},
		"## Plan":                               {refusals},
		"## Apply":                              {refusals},
		"## Clean up":                           {refusals},
		"## Without a cluster storage operator": {by("test/clusterstorage", "TestAdoptionByOLM")},
	},
	"architecture.md": {
		"# Architecture":                 {drawing, drawing},
		"## How the parts work together": {drawing},
	},
	"aws.md": {
		"## Create": {cloud, cloud},
		"## Delete": {cloud},
	},
	"catalog.md": {
		"## Build a catalog":         {transcripts},
		"### Images are not trusted": {transcripts},
		"## Templates of opm":        {transcripts},
		"## Check a catalog":         {transcripts, transcripts},
		"## What changes":            {transcripts},
		"## What is supported when":  {transcripts},
		"## What OLM will do":        {transcripts, transcripts},
		"## The upgrade graph":       {commands.printingNothing()},
	},
	"certification.md": {"## In a cloud": {nobody("needs a cluster in a cloud")}},
	"ci.md":            {"# Check catalogs in CI": {transcripts}, "## Repositories of operators": {transcripts, transcripts}, "## What an update asks for": {transcripts}},
	"cinder.md":        {"## The default class": {defaultClass}},
	"coming-from-opm.md": {
		"## In opm's place":     {nobody("a link of the reader's, and a target of the reader's Makefile; TestMakefileOfOthers calls opm so")},
		"## With what you have": {transcripts},
		"## First commands":     {commands},
	},
	"csi-migration.md": {
		"## Where a cluster stands": {onAndOff},
		"## Switch it on":           {onAndOff},
		"## Switch it off":          {onAndOff},
		"## Downgrades":             {onAndOff},
	},
	"day-1.md": {
		"## 2. A file system":              {nobody("creates resources in AWS; the page aws.md shows it, and its tests run it")},
		"## 4. A claim and a pod":          {nobody("as above")},
		"## 5. A grant and a SharedVolume": {nobody("security.md has the same command, which is followed")},
	},
	"develop.md": {
		"## Real programs": {nobody("names programs that only their user has; TestNodeRunsWhatUsersGive has a node run some")},
		"## Benchmarks":    {nobody("a benchmark, which takes minutes")},
		"## Permissions":   {nobody("writes the record in the repository; make test compares it")},
	},
	"disconnected.md": {
		"## From registry to registry": {transcripts, transcripts, by("test/e2e", "TestMirrorObjects")},
		"## By a folder":               {transcripts},
	},
	"efs-utils-base.md": {
		"## Release it":    {nobody("downloads sources and an image of CentOS; TestEFSDriver of package release builds from others")},
		"## What is in it": {drawing, drawing},
	},
	"install.md": {
		"# Operate the EFS driver":                {administrator.printingNothing()},
		"## Install the operator":                 {administrator, administrator},
		"## Install the driver":                   {administrator},
		"### Create access points for claims":     {administrator},
		"## Watch it":                             {administrator, administrator},
		"## Tune the operator":                    {administrator},
		"## Where the driver is":                  {administrator},
		"## Coming from the community's operator": {byHand, administrator},
		"## When an update fails":                 {administrator},
		"## When OpenShift is updated":            {administrator},
		"## When the operator waits":              {by("test/e2e", "TestOperatorIsUpdatedBesideADeadPod")},
		"## Remove the driver":                    {administrator},
	},
	"install-ebs-manila.md": {"# Install the EBS or the Manila driver": {administrator}},
	"olm-v1.md": {
		"## Install":             {extension},
		"## What OLM v1 refuses": {transcripts},
		"## Remove the operator": {extension},
	},
	"move-to-olm-v1.md": {
		"## Plan":    {moves.printingNothing()},
		"## Apply":   {moves.printingNothing(), moves.printingNothing(), moves.printingNothing()},
		"## Back":    {moves.printingNothing()},
		"## By hand": {extension},
	},
	"platforms.md": {
		"## Check the storage":        {defaultClass},
		"## The default StorageClass": {defaultClass},
		"## vSphere":                  {by("test/clusterstorage", "TestOperators", "TestPermissionsAreExact", "TestRolling")},
		"## Run it by hand":           {by("test/clusterstorage", "TestRunByHand")},
	},
	"redhat-efs.md": {"## Move over": {move, move, move, move, move, move}},
	"release.md": {
		"## Bundle":                       {commands, transcripts, transcripts, transcripts},
		"## Catalog":                      {commands, transcripts},
		"## Release to your own registry": {nobody("needs docker for the login; TestPublishedRelease runs make release itself"), nobody("TestSignedRelease of package release runs the same command for each image")},
		"### Install it on a cluster":     {published},
		"### Remove it from the cluster":  {published},
	},
	"security.md": {
		"## What teams may do":                              {administrator},
		"## Let namespaces use only what they were granted": {administrator},
		"### Names are no proof":                            {administrator},
		"## Close a cluster that began open":                {administrator, administrator},
		"## Have SharedVolumes refused at once":             {administrator},
	},
	"sharedvolume.md": {
		"# Mount an EFS file system":   {administrator, administrator},
		"## When the operator is gone": {administrator},
	},
	"slo.md": {
		"## How it is measured":           {by("drivers", "TestAlerts").printingNothing()},
		"## The driver is available":      {administrator},
		"## SharedVolumes are ready soon": {administrator},
	},
	"storage-alerts.md": {
		"## ClusterStorageOperatorAbsent":       {defaultClass.printingNothing()},
		"## MultipleDefaultStorageClasses":      {defaultClass.printingNothing()},
		"## PodStartupStorageOperationsFailing": {defaultClass.printingNothing()},
		"## KubePersistentVolumeFillingUp":      {defaultClass.printingNothing()},
		"## KubePersistentVolumeErrors":         {defaultClass.printingNothing()},
	},
	"support.md": {"# Get help with a driver": {administrator, nobody("pulls an image that quay.io does not have yet; TestPublishedRelease runs the same image from a registry of its own")}},
	"switch.md": {
		"# Switch to another catalog": {byHand.printingNothing()},
		"## By hand":                  {byHand},
		"## With the tool":            {nobody("installs programs on the machine")},
		"### Plan":                    {switchPage, switchPage, by("test/e2e", "TestSwitchWithTool")},
		"### Apply":                   {switchPage},
		"### Status and rollback":     {switchPage, switchPage},
		"## If the package has another name there": {switchPage},
		"## Versions 0.0.1 to 0.0.5":               {transcripts},
	},
	"troubleshooting.md": {
		"# Troubleshoot":                       {administrator},
		"## My pod hangs in ContainerCreating": {administrator, administrator},
		"### The driver's log on a node":       {by("test/drivers/matrix", "TestMatrix")},
		"### Access points share a group ID":   {nobody("asks AWS")},
		"## My driver is not Available":        {administrator},
	},
	"uninstall.md": {
		"## Remove the driver":        {administrator},
		"## What a removal waits for": {administrator},
		"### Pods on lost nodes":      {administrator},
		"### Do not wait":             {administrator},
		"## Remove the operator":      {administrator, administrator},
	},
	"your-catalog-today.md": {
		"# Your catalog, today": {nobody("pulls a public catalog, with credentials"), nobody("pulls a public catalog")},
	},
}
