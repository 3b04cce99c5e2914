//! With the feature `hip-link`, the program is linked with HIP: it starts without a GPU, and says what is missing.
#![cfg(feature = "hip-link")]

use hipplan::Device;

#[test]
fn without_a_device_the_error_names_the_call() {
    match Device::hip(0) {
        // A machine that has one.
        Ok(device) => assert_eq!(device.to_string(), "hip:0"),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("hipInit") || text.contains("hipGetDeviceCount"), "{text}");
            assert!(text.contains("100") || text.contains("101"), "{text}");
        }
    }
}
