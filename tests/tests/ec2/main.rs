//! The provider `ec2` end to end: the real daemon, the module as it is shipped, and the EC2 emulator with signatures and
//! policies enforced. What is there is asked with boto3, as another user, before and after.

mod allocate;
mod doubt;
mod world;
