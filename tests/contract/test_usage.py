from tfapp.contract.usage import Usage

GIB = 1 << 30


def usage(seconds, cpu_mean, peak, gpu_mean=None, count=100):
    return Usage(
        seconds, 1.0, cpu_mean, 2, GIB, peak, 8 * GIB, count, count, gpu_mean=gpu_mean, gpus=1
    )


def test_means_are_over_all_programs_and_peaks_the_highest():
    total = usage(100.0, 1.0, 2 * GIB, 0.5).after(usage(300.0, 2.0, 3 * GIB, 0.9, 7))
    assert (total.seconds, total.cpu_mean, total.gpu_mean) == (400.0, 1.75, 0.8)
    assert (total.memory, total.memory_peak, total.read, total.written) == (GIB, 3 * GIB, 107, 107)


def test_a_program_of_which_little_is_known():
    before = usage(300.0, 2.0, 3 * GIB)
    total = usage(0.0, None, GIB).after(before)
    assert (total.cpu_mean, total.gpu_mean) == (2.0, None)
    assert usage(0.0, None, GIB).after(usage(0.0, None, GIB)).cpu_mean is None
    assert before.after(None) is before
