// Kilometres between two points on the globe, by the formula of haversines.
//
// npx asc distance.ts -O3 --noAssert --runtime stub --use abort= --disable bulk-memory -o distance.wasm

function radians(degrees: f64): f64 {
  return degrees * Math.PI / 180.0;
}

export function distance(lat1: f64, lon1: f64, lat2: f64, lon2: f64): f64 {
  const a = Math.sin(radians(lat2 - lat1) / 2.0);
  const b = Math.sin(radians(lon2 - lon1) / 2.0);
  const h = a * a + Math.cos(radians(lat1)) * Math.cos(radians(lat2)) * b * b;
  return 12742.0 * Math.asin(Math.sqrt(Math.min(1.0, h)));
}

// How many steps 3n + 1 takes to reach 1: a loop whose length nobody knows beforehand.
export function collatz(n: i64): i32 {
  let steps = 0;
  while (n > 1) {
    n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    steps++;
  }
  return steps;
}
