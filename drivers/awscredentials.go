package drivers

// AWSCredentialKeys are the alternative sets of keys in a Secret with AWS credentials: a file in the format of the AWS configuration, or
// a key pair. OpenShift's documentation tells administrators to create Secrets with only a key pair. For a role, the cloud credential
// operator writes only the file. For a key pair, it writes both.
var AWSCredentialKeys = [][]string{{"credentials"}, {"aws_access_key_id", "aws_secret_access_key"}}
