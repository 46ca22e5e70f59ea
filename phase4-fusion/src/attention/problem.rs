//! Attentions with their expected results, for tests and tables.

use bench::ladder::{Expected, positions};
use common::check::{F32_ROUND_OFF, Mismatch, Report, Tolerance, compare};
use common::prelude::*;
use common::reference::Reference;

use super::{Inputs, Options, Products, Size};

/// Number of rows compared where a whole f64 reference would take too long.
const ROWS: usize = 64;

/// Factors of the separate inputs of e4m3.
const FACTORS: [f32; 3] = [0.75, 1.25, 0.5];

/// Memory layout of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Q, K and V separate, head after head.
    Apart,
    /// Result of one projection: [`Inputs::Joined`].
    Joined,
}

/// An attention over random values, on a device, and its result.
#[derive(Debug)]
pub struct AttentionProblem {
    /// Its sizes.
    pub size: Size,
    /// The mask and the scale.
    pub options: Options,
    /// O, within the largest of its values' bounds.
    pub expected: Expected,
    inputs: Vec<Tensor>,
    rows: Vec<Row>,
    products: Products,
}

/// A row of O, its tolerance, and its log-sum-exp.
#[derive(Debug)]
struct Row {
    /// Its offset in O, and its index in the log-sum-exp.
    at: [usize; 2],
    values: Vec<f64>,
    bounds: Vec<f64>,
    lse: f64,
    lse_bound: f64,
}

impl AttentionProblem {
    /// A problem of distinct values in (−1, 1), rounded to the type of the tensors.
    ///
    /// # Errors
    /// [`Error::Shape`] if a projection would have different keys than queries; errors of the device.
    pub fn seeded(
        device: &Device,
        size: Size,
        layout: Layout,
        products: Products,
        options: Options,
    ) -> Result<AttentionProblem> {
        let Size { images, heads, queries, keys, head } = size;
        let shapes: Vec<Vec<usize>> = match layout {
            Layout::Apart => [queries, keys, keys].map(|tokens| vec![images, heads, tokens, head]).to_vec(),
            Layout::Joined if queries != keys => {
                return Err(Error::shape("attention", format!("a projection of {queries} queries and {keys} keys")));
            }
            Layout::Joined => vec![vec![images, queries, 3 * heads * head]],
        };
        let rounded = |(seed, shape): (u64, &Vec<usize>)| Tensor::random(shape, seed).to_type(products.element());
        let host: Vec<Tensor> = (1..).zip(&shapes).map(rounded).collect::<Result<_>>()?;
        let mut values: Vec<Vec<f64>> = host.iter().map(Tensor::to_f64).collect::<Result<_>>()?;
        if (products, layout) == (Products::E4m3, Layout::Apart) {
            for (values, factor) in values.iter_mut().zip(FACTORS) {
                values.iter_mut().for_each(|value| *value *= f64::from(factor));
            }
        }
        // Where `part` (Q, K, V) of a head has a token.
        let token = |part: usize, matrix: usize, at: usize| match layout {
            Layout::Apart => &values[part][(matrix * [queries, keys, keys][part] + at) * head..][..head],
            Layout::Joined => {
                let (image, of_head) = (matrix / heads, matrix % heads);
                &values[0][(((image * queries + at) * 3 + part) * heads + of_head) * head..][..head]
            }
        };
        let all = size.scores(options.causal) * head as f64 <= f64::from(1 << 24);
        let chosen = if all { (0..size.rows()).collect() } else { positions(size.rows(), ROWS, 6) };
        let row = |&row: &usize| {
            let (matrix, query) = (row / queries, row % queries);
            let at = match layout {
                Layout::Apart => row * head,
                Layout::Joined => ((matrix / heads * queries + query) * heads + matrix % heads) * head,
            };
            let seen = if options.causal { query + 1 + keys - queries } else { keys };
            let scale = options.scale.map_or_else(|| 1.0 / (head as f64).sqrt(), f64::from);
            let others = (0..seen).map(|key| [1, 2].map(|part| token(part, matrix, key)));
            Row::new([at, row], token(0, matrix, query), others, scale, products)
        };
        let rows: Vec<Row> = chosen.iter().map(row).collect();
        let places = rows.iter().flat_map(|row| row.at[0]..row.at[0] + head).collect();
        let bound = rows.iter().flat_map(|row| &row.bounds).fold(0.0, |most: f64, bound| most.max(*bound));
        let reference = Reference {
            values: rows.iter().flat_map(|row| row.values.iter().copied()).collect(),
            terms: keys,
            magnitude: 1.0,
        };
        let expected = Expected::sample(size.rows() * head, places, reference)?.within(Tolerance::absolute(bound));
        let inputs = host.iter().map(|tensor| tensor.to_device(device)).collect::<Result<_>>()?;
        Ok(AttentionProblem { size, options, expected, inputs, rows, products })
    }

    /// Q, K and V on the device.
    pub fn inputs(&self) -> Inputs<'_> {
        match &*self.inputs {
            [q, k, v] if self.products == Products::E4m3 => Inputs::Scaled { q, k, v, factors: FACTORS },
            [q, k, v] => Inputs::Apart { q, k, v },
            joined => Inputs::Joined { qkv: &joined[0], heads: self.size.heads },
        }
    }

    /// Memory for O and the log-sum-exp, filled with NaN.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn outputs(&self, device: &Device) -> Result<[Tensor; 2]> {
        let Size { images, heads, queries, .. } = self.size;
        let out = Tensor::empty_of(device, &self.inputs().output_shape()?, self.products.output(), MemoryFormat::Nchw)?;
        Ok([out, Tensor::empty_on(device, &[images, heads, queries])?])
    }

    /// Compares every value with its own bound, and the log-sum-exp.
    ///
    /// # Errors
    /// Errors of the device; the inner result holds the mismatch.
    pub fn check(&self, out: &Tensor, lse: &Tensor) -> Result<Result<Report, Mismatch>> {
        let (out, lse) = (out.to_f64()?, lse.to_f64()?);
        let report = match self.expected.check(&out) {
            Ok(report) => report,
            mismatch => return Ok(mismatch),
        };
        for row in &self.rows {
            let found = out[row.at[0]..].iter().zip(&row.values).zip(&row.bounds);
            let found = found.map(|((found, value), bound)| (*found, *value, *bound));
            for (found, value, bound) in found.chain([(lse[row.at[1]], row.lse, row.lse_bound)]) {
                if let Err(mismatch) = compare(&[found], &[value], Tolerance::absolute(bound)) {
                    return Ok(Err(mismatch));
                }
            }
        }
        Ok(compare(&lse, &lse, Tolerance::exact()).map(|_| report)) // NaN equals nothing
    }
}

/// Relative loss of a sum of `terms` products: in f32 in any order, or cut as by tensor cores (`common::reference::TensorGemm`).
fn loss(terms: usize, products: Products) -> f64 {
    let cut = |terms: usize| terms.div_ceil(4) as f64 * (5.0 * 2f64.powi(-25) + 2f64.powi(-23));
    match products {
        Products::F32 => terms as f64 * F32_ROUND_OFF,
        Products::Parts => cut(3 * terms),
        Products::Tf32 | Products::F16 | Products::Bf16 => cut(terms),
        Products::E4m3 => 0.0, // bounded by `bytes_loss`, which is less
    }
}

/// Loss of a sum of `terms` products of e4m3, of which none is larger than `largest`, and no sum on the way: of 32 products and the sum so
/// far, bits below 2⁻¹³ of the largest are cut, and so is the result.
fn bytes_loss(terms: usize, largest: f64) -> f64 {
    largest * ((1.0 + 34.0 * 2f64.powi(-13)).powf(terms.div_ceil(32) as f64) - 1.0)
}

/// Relative loss of a product before it is added up, when its factors are rounded in registers: twice tf32's 2⁻¹¹; or twice 2⁻²¹,
/// which is cut off the smaller part of each factor, and the 2⁻²² of the two smaller parts.
fn rounded_products(products: Products) -> f64 {
    match products {
        Products::F32 | Products::F16 | Products::Bf16 | Products::E4m3 => 0.0,
        Products::Parts => 2.0 * 2f64.powi(-21) + 2f64.powi(-22),
        Products::Tf32 => 2.0 * 2f64.powi(-11) + 2f64.powi(-22),
    }
}

impl Row {
    /// Result of a query and the keys and values that it sees. With u = 2⁻²⁴ and A the largest Σ|q·k| · scale of a score:
    ///
    /// - a score is off by A · loss(head), by A times what its products lose, and by 6u · A for the scale, the shift and the rounding of
    ///   their sum;
    /// - a power of two by 2⁻²², and so is each correction, of which there is one per step of 8 keys or more;
    /// - a weight is rounded to f16: 2⁻¹¹ of it, or 2⁻²⁵ of the largest; to bf16: 2⁻⁸ of it; to e4m3: 2⁻⁴ of it, or 2⁻¹⁸ of the largest,
    ///   which is 2⁸;
    /// - products of weights and values lose what others do, their sums `loss` and γ; O is rounded to its type.
    ///
    /// Products of e4m3 lose `bytes_loss` instead of `loss`. Sums on the way are those of keys up to some key, for the scores of values, or
    /// for O of two runs of keys, each the difference of two such sums.
    fn new<'v>(
        at: [usize; 2],
        query: &[f64],
        others: impl Iterator<Item = [&'v [f64]; 2]> + Clone,
        scale: f64,
        products: Products,
    ) -> Row {
        let dot = |key: &[f64], magnitude: fn(f64) -> f64| {
            scale * query.iter().zip(key).map(|(q, k)| magnitude(q * k)).sum::<f64>()
        };
        let is_bytes = products == Products::E4m3;
        let scores: Vec<f64> = others.clone().map(|[key, _]| dot(key, |x| x)).collect();
        let largest = others.clone().map(|[key, _]| dot(key, f64::abs)).fold(0.0, f64::max);
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        let (mut values, mut magnitudes, mut plain) = (vec![0.0; query.len()], vec![0.0; query.len()], 0.0f64);
        let mut reached = vec![[0.0f64; 3]; query.len()]; // the least and the largest sum so far, and the largest product
        for ([_, value], weight) in others.clone().zip(&weights) {
            for (i, v) in value.iter().enumerate() {
                values[i] += weight / total * v;
                let [least, most, product] = reached[i];
                reached[i] = [least.min(values[i]), most.max(values[i]), product.max((weight / total * v).abs())];
                magnitudes[i] += weight / total * v.abs();
                plain = plain.max(v.abs());
            }
        }
        let (keys, lost) = (scores.len(), rounded_products(products));
        let steps = keys.div_ceil(if products.element().size() == 2 { 64 } else { 8 }) as f64;
        let power = 2f64.powi(-22) + 4.0 * F32_ROUND_OFF * (1.0 + largest);
        let cut_score = |[key, _]: [&[f64]; 2]| {
            let terms = query.iter().zip(key).map(|(q, k)| scale * q * k);
            let sums = terms.clone().scan(0.0, |sum, term| {
                *sum += term;
                Some(*sum)
            });
            bytes_loss(query.len(), terms.chain(sums).fold(0.0, |most: f64, x| most.max(x.abs())))
        };
        let cut = if is_bytes { others.map(cut_score).fold(0.0, f64::max) } else { 0.0 };
        let score = largest * (loss(query.len(), products) + lost + 6.0 * F32_ROUND_OFF) + cut;
        let weight = score.exp() * (1.0 + power).powf(steps + 1.0);
        let sums = (1.0 + lost) * (1.0 + loss(keys, products)) * (1.0 + loss(keys, Products::F32));
        // Of a weight, the smallest weight, and O.
        let (rounded, smallest, stored) = match products {
            Products::F16 => (2f64.powi(-11), 2f64.powi(-25), 2f64.powi(-11)),
            Products::Bf16 => (2f64.powi(-8), 0.0, 2f64.powi(-8)),
            Products::E4m3 => (2f64.powi(-4), 2f64.powi(-18), 2f64.powi(-11)),
            Products::F32 | Products::Parts | Products::Tf32 => (4.0 * F32_ROUND_OFF, 0.0, 4.0 * F32_ROUND_OFF),
        };
        let factor = weight * weight * sums * (1.0 + rounded) - 1.0;
        let of_smallest = smallest * plain * (keys as f64 / total + 1.0);
        let bound = |((value, magnitude), [least, most, product]): ((&f64, &f64), &[f64; 3])| {
            let sum = 2.0 * (most - least) + 2.0 * rounded * magnitude;
            let cut = if is_bytes { bytes_loss(keys, product.max(sum)) } else { 0.0 };
            factor * magnitude + stored * value.abs() + of_smallest + cut
        };
        let lse = most + total.ln();
        Row {
            at,
            bounds: values.iter().zip(&magnitudes).zip(&reached).map(bound).collect(),
            values,
            lse,
            lse_bound: (weight * sums - 1.0) + 4.0 * F32_ROUND_OFF * (lse.abs() + most.abs() + 1.0),
        }
    }
}
