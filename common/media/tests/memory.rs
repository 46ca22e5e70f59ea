//! Host memory that photos take: a test of its own, since it counts allocations of the whole process.
#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use image::{Rgb, RgbImage};
use media::photo::{Photo, batch};

/// The system's allocator, with the bytes in use now and at the peak.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system allocator's; counting touches none of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn photos_give_their_pixels_back_one_by_one() {
    const PHOTOS: usize = 6;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.png");
    let (width, height) = (4000, 3000);
    RgbImage::from_pixel(width, height, Rgb([10, 200, 90])).save(&path).unwrap();
    let pixels = 3 * width as usize * height as usize;

    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let photos: Vec<Photo> = (0..PHOTOS).map(|_| Photo::open(&path).unwrap()).collect();
    let (kept, most) = (NOW.load(Ordering::Relaxed) - before, MOST.load(Ordering::Relaxed) - before);
    assert!(kept < PHOTOS * 200_000, "{kept} bytes are kept of {PHOTOS} photos");
    // One photo's pixels, and what the resize makes of them.
    assert!(most < 2 * pixels, "{most} bytes at most, a photo has {pixels}");
    assert!(photos.iter().all(|photo| photo.size() == (width, height)));
    assert_eq!(batch(&photos).unwrap().shape(), [PHOTOS, 3, 224, 224]);
}
