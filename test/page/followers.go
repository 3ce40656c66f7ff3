package page

var (
	transcripts   = by("cmd/berth", "TestPages")
	silent        = by("cmd/berth", "TestPageCommands")
	administrator = by("test/e2e", "TestFollowPages") // make prove SUITE=pages
	extension     = by("test/drivers/continuity", "TestEFSOfOLMv1", "TestPublishedRelease")
	published     = by("test/drivers/continuity", "TestPublishedRelease")

	drawing = nobody("a drawing or an output, without commands")
	notYet  = nobody("no test follows it yet")
)

// followers says, for each block of shell commands of each page, by its heading and in its order, which tests run it, or why none
// does.
var followers = map[string]map[string][]follower{
	"README.md": {
		"## Try it": {nobody("downloads and compiles a control plane, and runs all tests"), nobody("compiles a control plane; times vary")},
	},
	"adopt.md": {
		"# Hand a driver over to the cluster storage operator": {notYet},
		"## Plan":                               {notYet},
		"## Apply":                              {notYet},
		"## Clean up":                           {notYet},
		"## Without a cluster storage operator": {notYet},
	},
	"architecture.md": {
		"# Architecture":                       {drawing, drawing},
		"## How an object gets into a cluster": {drawing},
	},
	"aws.md": {
		"## Create": {notYet, notYet},
		"## Delete": {notYet},
	},
	"catalog.md": {
		"## Build a catalog":         {transcripts},
		"### Images are not trusted": {transcripts},
		"## Check a catalog":         {transcripts, transcripts},
		"## What changes":            {transcripts},
		"## What OLM will do":        {transcripts, transcripts},
		"## The upgrade graph":       {silent},
	},
	"certification.md":   {"## In a cloud": {nobody("needs a cluster in a cloud")}},
	"ci.md":              {"# Check catalogs in CI": {transcripts}},
	"cinder.md":          {"## The default class": {notYet}},
	"coming-from-opm.md": {"## First commands": {silent}},
	"csi-migration.md": {
		"## Where a cluster stands": {notYet},
		"## Switch it on":           {notYet},
		"## Switch it off":          {notYet},
		"## Downgrades":             {notYet},
	},
	"develop.md": {
		"## Benchmarks":  {nobody("a benchmark, which takes minutes")},
		"## Permissions": {nobody("writes the record in the repository; make test compares it")},
	},
	"disconnected.md": {
		"## From registry to registry": {transcripts, transcripts, notYet},
		"## By a folder":               {transcripts},
	},
	"efs-utils-base.md": {
		"## Release it":    {notYet},
		"## What is in it": {drawing, drawing},
	},
	"install.md": {
		"# Install the EFS driver":                {administrator},
		"## Install the operator":                 {administrator, administrator},
		"## Install the driver":                   {administrator},
		"### Create access points for claims":     {administrator},
		"## Watch it":                             {administrator, administrator},
		"## Tune the operator":                    {administrator},
		"## Where the driver is":                  {administrator},
		"## Coming from the community's operator": {notYet, notYet},
		"## When an update fails":                 {notYet},
		"## When OpenShift is updated":            {notYet},
		"## When the operator waits":              {notYet},
		"## Remove the driver":                    {notYet},
	},
	"install-ebs-manila.md": {"# Install the EBS or the Manila driver": {administrator}},
	"olm-v1.md": {
		"## Install":             {extension},
		"## From OLM v0":         {extension},
		"## Remove the operator": {extension},
	},
	"platforms.md": {
		"## Check the storage":        {notYet},
		"## The default StorageClass": {notYet},
		"## vSphere":                  {notYet},
		"## Run it by hand":           {notYet},
	},
	"redhat-efs.md": {"## Move over": {notYet, notYet, notYet, notYet, notYet, notYet}},
	"release.md": {
		"## Bundle":                       {silent, transcripts, transcripts, transcripts},
		"## Catalog":                      {silent, transcripts},
		"## Release to your own registry": {notYet, notYet},
		"### Install it on a cluster":     {published},
		"### Remove it from the cluster":  {published},
	},
	"security.md": {
		"## The model":                          {notYet},
		"### Names are no proof":                {administrator},
		"## Close a cluster that began open":    {administrator, administrator},
		"## Have SharedVolumes refused at once": {administrator},
	},
	"sharedvolume.md": {
		"# Mount an EFS file system":   {administrator, administrator},
		"## When the operator is gone": {administrator},
	},
	"slo.md": {
		"## How it is measured":           {notYet},
		"## The driver is available":      {administrator},
		"## SharedVolumes are ready soon": {administrator},
	},
	"support.md": {"# Get help with a driver": {notYet}},
	"switch.md": {
		"# Switch to another catalog": {notYet},
		"## By hand":                  {notYet},
		"## With the tool":            {notYet},
		"### Plan":                    {notYet, notYet, notYet},
		"### Apply":                   {notYet},
		"### Status and rollback":     {notYet, notYet},
		"## If the package has another name there": {notYet},
		"## Versions 0.0.1 to 0.0.5":               {transcripts},
	},
	"troubleshooting.md": {
		"# Troubleshoot":                       {administrator},
		"## My pod hangs in ContainerCreating": {notYet, notYet},
		"### The driver's log on a node":       {notYet},
		"## My driver is not Available":        {administrator},
	},
	"uninstall.md": {
		"## Remove the driver":        {administrator},
		"## What a removal waits for": {administrator},
		"### Pods on lost nodes":      {notYet},
		"### Do not wait":             {administrator},
		"## Remove the operator":      {administrator, administrator},
	},
}
