package drivers

// AWSCredentialKeys are the keys of a Secret with AWS credentials: a file in the format of the AWS configuration, or a
// key pair. OpenShift's documentation tells administrators to create Secrets with only a key pair. The cloud credential
// operator writes the file for a role, and both for a key pair.
var AWSCredentialKeys = [][]string{{"credentials"}, {"aws_access_key_id", "aws_secret_access_key"}}
