// Direct 2-D convolution: one thread computes one output element, from a whole window of the input.
//
//     input [N, C, H, W]      weight [K, C/groups, R, S]      output [N, K, P, Q]
//
//            Q
//        ┌───────┐     thread i → (n, k, y, x), x fastest: the 32 lanes of a warp
//      P │ ▪▪▪▪· │     are neighbours in a row of the output, so their stores lie
//        └───────┘     side by side; their loads do too, if stride_x is 1.
//
// Limited by loads: each tap fetches two values for one multiply-add, and each input value is fetched again by every
// output channel and every window that covers it. Nothing is shared between threads; that is what the ladder is for.
// run: conv // trial: conv

#include "conv.cuh"

// bias: [K], or null for none.
// ANCHOR: kernel
extern "C" __global__ void conv_direct(const float *input, const float *weight, const float *bias, float *output,
                                       Conv2d conv) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= conv.outputs) {
        return;
    }
    int x = i % conv.out_width;
    int y = i / conv.out_width % conv.out_height;
    int k = i / (conv.out_width * conv.out_height) % conv.out_channels;
    int n = i / (conv.out_width * conv.out_height * conv.out_channels);

    // Output channel k sees the input channels of its own group only.
    int group_channels = conv.channels / conv.groups;
    int first_channel = k / (conv.out_channels / conv.groups) * group_channels;

    float sum = 0.0f;
    for (int c = 0; c < group_channels; c++) {
        for (int r = 0; r < conv.window_y; r++) {
            int row = y * conv.stride_y - conv.padding_y + r * conv.dilation_y;
            if (row < 0 || row >= conv.height) {
                continue;  // padding is zero and adds nothing
            }
            for (int s = 0; s < conv.window_x; s++) {
                int column = x * conv.stride_x - conv.padding_x + s * conv.dilation_x;
                if (column < 0 || column >= conv.width) {
                    continue;
                }
                int at = ((n * conv.channels + first_channel + c) * conv.height + row) * conv.width + column;
                int tap = ((k * group_channels + c) * conv.window_y + r) * conv.window_x + s;
                sum += input[at] * weight[tap];
            }
        }
    }
    output[i] = bias ? sum + bias[k] : sum;
}
// ANCHOR_END: kernel
