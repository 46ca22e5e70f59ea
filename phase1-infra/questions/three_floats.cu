// One member of a record of three floats.

struct Point {
    float x, y, z;
};

extern "C" __global__ void three_floats(const Point *points, float *y) {
    y[threadIdx.x] = points[threadIdx.x].x;
}
