;; A score in [0, 1] from age, body mass index and whether someone smokes, by hand.
(module
  (func (export "risk") (param $age i32) (param $bmi f64) (param $smoker i32) (result f64)
    (local $score f64)
    (local.set $score
      (f64.div (f64.convert_i32_s (local.get $age)) (f64.const 200)))
    (if (f64.gt (local.get $bmi) (f64.const 30))
      (then (local.set $score (f64.add (local.get $score) (f64.const 0.2)))))
    (if (local.get $smoker)
      (then (local.set $score (f64.add (local.get $score) (f64.const 0.25)))))
    (local.get $score)))
