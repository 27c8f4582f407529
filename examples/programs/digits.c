/* Is the last digit of a number the check digit of the others (Luhn)? 1 or 0.

   clang --target=wasm32 -O2 -nostdlib -mno-bulk-memory -Wl,--no-entry -Wl,--export=luhn \
         -Wl,--export=median -Wl,--strip-all -Wl,-z,stack-size=1024 -o digits.wasm digits.c */

static const unsigned char doubled[10] = {0, 2, 4, 6, 8, 1, 3, 5, 7, 9};

int luhn(long long number)
{
    unsigned long long left = number < 0 ? -(unsigned long long)number : number;
    unsigned sum = 0;
    for (int place = 0; left; place++) {
        unsigned digit = left % 10;
        sum += place % 2 ? doubled[digit] : digit;
        left /= 10;
    }
    return sum % 10 == 0;
}

/* The middle one of five numbers, which are sorted in memory of this row's own. */
double median(double a, double b, double c, double d, double e)
{
    volatile double x[5] = {a, b, c, d, e};
    for (int i = 1; i < 5; i++) {
        double moved = x[i];
        int j = i;
        for (; j > 0 && x[j - 1] > moved; j--)
            x[j] = x[j - 1];
        x[j] = moved;
    }
    return x[2];
}
