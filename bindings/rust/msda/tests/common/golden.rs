//! The golden vectors of tests/golden: the same files that the C, C++ and Python tests read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use msda::{Dtype, Problem};
use npyz::NpyFile;
use zip::read::ZipFile;

pub struct Golden {
    arrays: HashMap<String, (Vec<u64>, Vec<f64>)>,
    level_hw: Vec<[i32; 2]>,
    points: Vec<i32>,
}

/// Golden vectors lie in the folder that MSDA_GOLDEN names; the packaged crate has none of its own.
pub fn files() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden");
    let folder = std::env::var_os("MSDA_GOLDEN").map_or(own, PathBuf::from);
    let entries = std::fs::read_dir(folder).expect("MSDA_GOLDEN is the folder tests/golden");
    let mut files: Vec<PathBuf> = (entries.map(|entry| entry.expect("readable").path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "npz"))
        .collect();
    files.sort();
    files
}

fn for_each_array(path: &Path, mut visit: impl FnMut(String, NpyFile<ZipFile<'_>>)) {
    let file = std::fs::File::open(path).expect("readable");
    let mut archive = zip::ZipArchive::new(std::io::BufReader::new(file)).expect("an .npz");
    for index in 0..archive.len() {
        let entry = archive.by_index(index).expect("readable");
        let name = entry.name().strip_suffix(".npy").expect("an array").to_string();
        visit(name, NpyFile::new(entry).expect("an array"));
    }
}

impl Golden {
    pub fn read(path: &Path) -> Self {
        let (mut arrays, mut integers) = (HashMap::new(), HashMap::new());
        for_each_array(path, |name, array| {
            if name == "level_hw" || name == "points" {
                integers.insert(name, array.into_vec::<i32>().expect("int32"));
            } else {
                let shape = array.shape().to_vec();
                arrays.insert(name, (shape, array.into_vec::<f64>().expect("float64")));
            }
        });
        let level_hw = integers["level_hw"].chunks(2).map(|hw| [hw[0], hw[1]]).collect();
        Golden { arrays, level_hw, points: integers["points"].clone() }
    }

    /// What `msda run --output` wrote: results only, in float32 or float64.
    pub fn read_results(path: &Path) -> Self {
        let mut arrays = HashMap::new();
        for_each_array(path, |name, array| {
            let shape = array.shape().to_vec();
            let numbers = match array.dtype().descr().as_str() {
                "'<f4'" => {
                    let numbers = array.into_vec::<f32>().expect("float32");
                    numbers.into_iter().map(f64::from).collect()
                }
                _ => array.into_vec::<f64>().expect("float64"),
            };
            arrays.insert(name, (shape, numbers));
        });
        Golden { arrays, level_hw: Vec::new(), points: Vec::new() }
    }

    pub fn is_fused(&self) -> bool {
        self.arrays.contains_key("reference")
    }

    /// The names of the inputs in the order of `Inputs::sampled` and `Inputs::fused`.
    pub fn input_names(&self) -> &'static [&'static str] {
        if self.is_fused() {
            &["value", "reference", "offset", "logit"]
        } else {
            &["value", "coord", "weight"]
        }
    }

    pub fn array(&self, name: &str) -> &[f64] {
        &self.arrays[name].1
    }

    pub fn array_f32(&self, name: &str) -> Vec<f32> {
        self.array(name).iter().map(|&x| x as f32).collect()
    }

    /// How far each number of coord is from a pixel line, in pixels. The derivative by it jumps there, and
    /// the golden files and the library may stand on different sides of it.
    pub fn distances_from_lines(&self) -> Vec<f64> {
        let sizes: Vec<f64> = (self.level_hw.iter().zip(&self.points))
            .flat_map(|([h, w], &count)| [f64::from(*w), f64::from(*h)].repeat(count as usize))
            .collect();
        let pixels = self.array("coord").iter().zip(sizes.iter().cycle());
        pixels.map(|(x, size)| x * size - 0.5).map(|pixel| (pixel - pixel.round()).abs()).collect()
    }

    pub fn problem(&self, dtype: Dtype) -> Problem {
        let size = |name: &str, axis: usize| self.arrays[name].0[axis] as i64;
        let problem = Problem::new(&self.level_hw, dtype)
            .points_by_level(&self.points)
            .batch(size("value", 0))
            .queries(size("output", 1))
            .heads(size("value", 2), size("value", 3));
        if self.is_fused() {
            problem.fused(size("reference", 3) as i32)
        } else {
            problem
        }
    }
}
