// What the steps of the convolution ladder share: the shapes, as the host passes them.
//
//     input [N, C, H, W]      weight [K, C/groups, R, S]      output [N, K, P, Q]
//
// Every count fits 31 bits; so do the offsets of rows and columns, padding included.
// run: conv // trial: conv
#pragma once

// Passed by value: a launch copies it to constant memory, where all lanes read it at once.
struct Conv2d {
    unsigned outputs;                   // N·K·P·Q
    int images;                         // N
    int channels, height, width;        // C, H, W
    int out_channels;                   // K
    int window_y, window_x;             // R, S
    int out_height, out_width;          // P, Q
    int stride_y, stride_x;
    int padding_y, padding_x;
    int dilation_y, dilation_x;
    int groups;
    int group_channels, group_outputs;  // C/groups, K/groups
    int plane;                          // P·Q
    int pixels;                         // N·P·Q
    int taps;                           // C/groups·R·S: the products that make an output
};
