//! Pinned memory in a process with one stream: a test of its own, since streams of other tests would be visible here.

use common::device_test;

device_test! {
    fn a_copy_on_the_only_stream_is_waited_for(device) {
        let stream = device.stream();
        // 64 MiB: a millisecond on the way.
        let n = 16 << 20;
        let mut pinned = device.alloc_pinned::<u32>(n)?;
        let numbers: Vec<u32> = (0..n as u32).collect();
        let buffer = stream.clone_htod(&numbers)?;
        stream.memcpy_dtoh(&buffer, &mut pinned)?;
        assert!(pinned.as_slice()? == numbers, "read before the copy from the device was finished");
        let copy = stream.clone_htod(&pinned)?;
        pinned.as_mut_slice()?.fill(0);
        assert!(stream.clone_dtoh(&copy)? == numbers, "written before the copy to the device was finished");
        // Freed while a copy may be on its way.
        stream.memcpy_dtoh(&buffer, &mut pinned)?;
        drop(pinned);
        stream.synchronize()
    }
}
