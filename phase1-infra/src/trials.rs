//! Checks the kernels of the page on the memory model against their expected results, for readers who have just changed one.
//! The ones that hope for an order are run too, where they can't wait forever: the sanitiser has findings on them.

use bench::trial::{Size, Trial, Verdicts, exactly};
use common::check::{Tolerance, compare};
use common::prelude::*;
use common::reference;

use crate::memory_model::{LAST_BLOCK, MESSAGE, SWAP, Writer, message, sum, swap};
use crate::{step04_vector_add, step05_grid_stride};

/// All trials.
pub static TRIALS: &[Trial] = &[
    Trial::new("vector-add").sized(&[Size::new("n", [0, 1 << 16], 1000)], vector_add),
    Trial::new("grid-stride")
        .sized(&[Size::new("n", [0, 1 << 16], 1000), Size::new("blocks", [1, 64], 2)], grid_stride),
    Trial::new("memory_model").ragged(memory_model),
];

fn vector_add(device: &Device, sizes: &[usize]) -> Result<Vec<String>> {
    let [n] = exactly(sizes)?;
    let (a, b) = (Tensor::random(&[n], 1), Tensor::random(&[n], 2));
    let expected = reference::vector_add(a.as_slice()?, b.as_slice()?)?;
    let mut all = Verdicts::default();
    let sum = step04_vector_add::add_on(device, a.as_slice()?, b.as_slice()?)?;
    all.add(format!("n = {n}"), compare(&sum, &expected.values, expected.tolerance()));
    Ok(all.into_wrong())
}

fn grid_stride(device: &Device, sizes: &[usize]) -> Result<Vec<String>> {
    let [n, blocks] = exactly(sizes)?;
    let (a, b) = (Tensor::random(&[n], 1), Tensor::random(&[n], 2));
    let expected = reference::vector_add(a.as_slice()?, b.as_slice()?)?;
    let (stream, mut all) = (device.stream(), Verdicts::default());
    let kernel = device.kernel(&step05_grid_stride::SOURCE, "grid_stride_add")?;
    let (a, b, mut c) =
        (stream.clone_htod(a.as_slice()?)?, stream.clone_htod(b.as_slice()?)?, stream.alloc_poisoned(n)?);
    step05_grid_stride::grid_stride_add(&stream, &kernel, blocks as u32, &a, &b, &mut c)?;
    let compared = compare(&stream.clone_dtoh(&c)?, &expected.values, expected.tolerance());
    all.add(format!("n = {n}, {blocks} blocks"), compared);
    Ok(all.into_wrong())
}

/// Kernels whose second block may write.
const ORDERED: [&str; 2] = ["message_fenced", "message_released"];
const SIZES: [usize; 8] = [0, 1, 2, 31, 32, 33, 1000, 4097];

fn memory_model(device: &Device) -> Result<Vec<String>> {
    let (stream, mut all) = (device.stream(), Verdicts::default());
    all.part(|all| {
        let module = device.load(&MESSAGE)?;
        for name in module.kernel_names() {
            let kernel = module.kernel(name)?;
            for writer in Writer::ALL.into_iter().filter(|&writer| writer == Writer::First || ORDERED.contains(&name)) {
                let got = message(&stream, &kernel, 42.5, writer)?;
                all.add(format!("{name}, {writer:?} writes"), compare(&[got], &[42.5], Tolerance::exact()));
            }
        }
        Ok(())
    })?;
    all.part(|all| {
        let module = device.load(&SWAP)?;
        for (name, n) in module.kernel_names().flat_map(|name| SIZES.map(|n| (name, n))) {
            let x = Tensor::random(&[n], 1).into_vec()?;
            let expected: Vec<f32> = (0..n).map(|i| x.get(i ^ 1).copied().unwrap_or(0.0)).collect();
            let swapped = swap(&stream, &module.kernel(name)?, &x)?;
            all.add(format!("{name}, n = {n}"), compare(&swapped, &expected, Tolerance::exact()));
        }
        Ok(())
    })?;
    all.part(|all| {
        let module = device.load(&LAST_BLOCK)?;
        for (name, n) in module.kernel_names().flat_map(|name| SIZES.map(|n| (name, n))) {
            let x = Tensor::random(&[n], 1).into_vec()?;
            let expected: f64 = x.iter().map(|&value| f64::from(value)).sum();
            let magnitude = x.iter().map(|&value| f64::from(value).abs()).sum();
            let sum = sum(&stream, &module.kernel(name)?, &x)?;
            all.add(format!("{name}, n = {n}"), compare(&[sum], &[expected], Tolerance::dot(n, magnitude)));
        }
        Ok(())
    })?;
    Ok(all.into_wrong())
}
