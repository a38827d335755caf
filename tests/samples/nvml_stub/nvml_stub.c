/* A stand-in for libnvidia-ml.so.1 that does as a control file tells it and aborts when its contracts are broken.

The file named by NVML_STUB holds "key = value" lines and is read anew at every call, so a test can change it at any time.
A key of one device is "<index>.<key>", else "<key>" counts for all; MIG slice keys are "<index>.mig<slice>.<key>".

  devices, init (code nvmlInit returns), driver, cuda
  <i>.name .uuid .capability ("9.0") .total .reserved .used .free .util_gpu .util_memory .power_usage .power_instant .power_average
  .power_limit .energy .sm_clock .memory_clock .max_sm_clock .event_reasons .temperature .memory_temperature .pcie_gen .pcie_width
  .max_pcie_gen .max_pcie_width .persistence .throttle_power .throttle_sw_thermal .throttle_hw_thermal .throttle_brake (ns)
  <i>.gpm (0/1) .gpm.<metric id> = value | nan ; .mig (0/1) .mig_slots ; .mig<j>.name .uuid .gi .ci .sms .total .used .free .reserved .gpm.<id>
  <i>.ecc_corrected .ecc_uncorrected .ecc_corrected_ever .ecc_uncorrected_ever ; .remapped = "<correctable> <uncorrectable> <pending> <failure>"
  <i>.retired = "<single bit> <double bit>" .retirement_pending ; .management_limit
  <i>.proc<k>.pid .memory (absent: not available) .kind (C or G) .gi .ci, k from 0 without gaps
  <i>.fail.<function> = code ; slow.<function> or slow (every call) = seconds ; crash (0/1) ; <i>.lost_after = number of calls on that device

Contracts: use after shutdown, shutdown during a call, samples not freed at shutdown, double free, GPM samples of two devices or
less than 100 ms apart, a wrong struct version, any setter: a line on stderr, then abort().
Every call adds "<seconds> <function> <device>" to the file named by NVML_STUB_CALLS, where there is one.
Built with -DWITHOUT_EVENT_REASONS and -DWITHOUT_MEMORY_V2 it is an older driver, with -DLEGACY_PROCESSES one of the few whose records of
processes were longer. */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, LOST = 15, UNKNOWN = 999 };
enum { GPUS = 16, SLICES = 8 };

typedef struct Slice { int parent, slot; } Slice;
typedef struct Device { int index; long calls; Slice slices[SLICES]; } Device;
typedef struct Sample { int magic, device, slice; double taken_s; } Sample;

static Device devices[GPUS];
static int sessions, initialised, ended, in_flight, samples_alive;
enum { ALIVE = 0x5a5a, FREED = 0xdead };

static void broken(const char *what) {
    fprintf(stderr, "nvml stub: contract broken: %s\n", what);
    abort();
}

static double now_s(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

/* With NVML_STUB_FIXED set the file is read once and kept sorted: then the time a call takes is not the stand-in's. */
typedef struct Line { char key[160], value[256]; } Line;
static Line *kept;
static size_t kept_lines;

static int by_key(const void *one, const void *other) { return strcmp(((const Line *)one)->key, ((const Line *)other)->key); }

static void keep(FILE *file) {
    char line[512];
    kept = calloc(4096, sizeof *kept);
    while (kept_lines < 4096 && fgets(line, sizeof line, file)) {
        char *equals = strstr(line, " = ");
        if (!equals) continue;
        *equals = 0;
        equals[3 + strcspn(equals + 3, "\n")] = 0;
        strncpy(kept[kept_lines].key, line, sizeof kept->key - 1);
        strncpy(kept[kept_lines++].value, equals + 3, sizeof kept->value - 1);
    }
    qsort(kept, kept_lines, sizeof *kept, by_key);
}

static int lookup_kept(const char *key, char *value, size_t size) {
    Line wanted;
    snprintf(wanted.key, sizeof wanted.key, "%s", key);
    Line *found = bsearch(&wanted, kept, kept_lines, sizeof *kept, by_key);
    if (found) snprintf(value, size, "%s", found->value);
    return found != NULL;
}

static int lookup(const char *key, char *value, size_t size) {
    if (kept) return lookup_kept(key, value, size);
    const char *path = getenv("NVML_STUB");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    int found = 0;
    if (!file) return 0;
    if (getenv("NVML_STUB_FIXED")) {
        keep(file);
        fclose(file);
        return lookup_kept(key, value, size);
    }
    while (fgets(line, sizeof line, file)) {
        char *equals = strstr(line, " = ");
        if (!equals) continue;
        *equals = 0;
        if (strcmp(line, key)) continue;
        equals[3 + strcspn(equals + 3, "\n")] = 0;
        snprintf(value, size, "%s", equals + 3);
        found = 1;
    }
    fclose(file);
    return found;
}

static int told(int device, int slice, const char *key, char *value, size_t size) {
    char full[160];
    if (slice >= 0) {
        snprintf(full, sizeof full, "%d.mig%d.%s", device, slice, key);
        return lookup(full, value, size);
    }
    snprintf(full, sizeof full, "%d.%s", device, key);
    return (device >= 0 && lookup(full, value, size)) || lookup(key, value, size);
}

static int number(int device, int slice, const char *key, double *value) {
    char text[256];
    if (!told(device, slice, key, text, sizeof text)) return NOT_SUPPORTED;
    *value = strtod(text, NULL);
    return OK;
}

static double number_or(int device, const char *key, double otherwise) {
    double value;
    return number(device, -1, key, &value) == OK ? value : otherwise;
}

static int is_slice(void *handle) { return handle < (void *)devices || handle >= (void *)(devices + GPUS) || ((char *)handle - (char *)devices) % sizeof(Device); }
static int device_of(void *handle) { return (int)(((char *)handle - (char *)devices) / sizeof(Device)); }
static int slice_of(void *handle) { return is_slice(handle) ? ((Slice *)handle)->slot : -1; }

static void note(const char *function, int device) {
    const char *path = getenv("NVML_STUB_CALLS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%.6f %s %d\n", now_s(), function, device);
    fclose(file);
}

static void dawdle(const char *function) {
    char key[160];
    snprintf(key, sizeof key, "slow.%s", function);
    double seconds = number_or(-1, key, number_or(-1, "slow", 0));
    if (seconds > 0) usleep((useconds_t)(seconds * 1e6));
    if (number_or(-1, "crash", 0)) abort();
}

/* What every call does first: contracts, slowness, faults. */
static int enter(const char *function, int device) {
    char key[160];
    double value;
    if (ended) broken("a call after nvmlShutdown");
    if (!initialised) return UNINITIALIZED;
    note(function, device);
    __sync_add_and_fetch(&in_flight, 1);
    dawdle(function);
    __sync_sub_and_fetch(&in_flight, 1);
    snprintf(key, sizeof key, "fail.%s", function);
    if (number(device, -1, key, &value) == OK && value) return (int)value;
    if (device >= 0) {
        long calls = ++devices[device].calls;
        if (number(device, -1, "lost_after", &value) == OK && calls > value) return LOST;
    }
    return OK;
}
#define ENTER(handle) do { int code = enter(__func__, device_of(handle)); if (code) return code; } while (0)

API int nvmlInitWithFlags(unsigned flags) {
    double code = number_or(-1, "init", 0);
    (void)flags;
    dawdle(__func__);
    if (code) return (int)code;
    sessions++; /* as the library does: the last nvmlShutdown of as many nvmlInit ends it */
    initialised = 1;
    ended = 0;
    for (int i = 0; i < GPUS; i++) {
        devices[i].index = i;
        for (int j = 0; j < SLICES; j++) devices[i].slices[j] = (Slice){i, j};
    }
    return OK;
}

API int nvmlShutdown(void) {
    if (ended) broken("nvmlShutdown twice");
    if (!initialised) return UNINITIALIZED;
    if (--sessions) return OK;
    if (in_flight) broken("nvmlShutdown while another call runs");
    if (samples_alive) broken("nvmlShutdown before the GPM samples were freed");
    initialised = 0;
    ended = 1;
    return OK;
}

API const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "stub error"; }

static int text(int device, int slice, const char *key, char *buffer, unsigned size) {
    return told(device, slice, key, buffer, size) ? OK : NOT_SUPPORTED;
}

API int nvmlSystemGetDriverVersion(char *buffer, unsigned size) {
    int code = enter(__func__, -1);
    return code ? code : text(-1, -1, "driver", buffer, size);
}

API int nvmlSystemGetCudaDriverVersion(int *version) {
    int code = enter(__func__, -1);
    *version = (int)number_or(-1, "cuda", 12080);
    return code;
}

API int nvmlDeviceGetCount_v2(unsigned *count) {
    int code = enter(__func__, -1);
    *count = (unsigned)number_or(-1, "devices", 0);
    return code;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    if (index >= number_or(-1, "devices", 0)) return INVALID;
    ENTER(&devices[index]);
    *handle = &devices[index];
    return OK;
}

API int nvmlDeviceGetName(void *handle, char *buffer, unsigned size) { ENTER(handle); return text(device_of(handle), slice_of(handle), "name", buffer, size); }
API int nvmlDeviceGetUUID(void *handle, char *buffer, unsigned size) { ENTER(handle); return text(device_of(handle), slice_of(handle), "uuid", buffer, size); }

typedef struct { char legacy[16]; unsigned domain, bus, device, pci_device, pci_subsystem; char bus_id[32]; } PciInfo;

API int nvmlDeviceGetPciInfo_v3(void *handle, PciInfo *info) {
    ENTER(handle);
    memset(info, 0, sizeof *info);
    snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", device_of(handle) + 1);
    return OK;
}

API int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    char value[32];
    ENTER(handle);
    if (!told(device_of(handle), -1, "capability", value, sizeof value)) return NOT_SUPPORTED;
    return sscanf(value, "%d.%d", major, minor) == 2 ? OK : UNKNOWN;
}

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;

static int memory(void *handle, MemoryV2 *answer) {
    double total, value;
    int device = device_of(handle), slice = slice_of(handle);
    if (number(device, slice, "total", &total)) return NOT_SUPPORTED;
    answer->total = (unsigned long long)total;
    answer->reserved = number(device, slice, "reserved", &value) == OK ? (unsigned long long)value : 0;
    answer->used = number(device, slice, "used", &value) == OK ? (unsigned long long)value : 0;
    answer->free = answer->total - answer->used - answer->reserved;
    return OK;
}

API int nvmlDeviceGetMemoryInfo(void *handle, Memory *answer) {
    MemoryV2 exact = {0};
    ENTER(handle);
    int code = memory(handle, &exact);
    *answer = (Memory){exact.total, exact.free, exact.used + exact.reserved};
    return code;
}

#ifndef WITHOUT_MEMORY_V2
API int nvmlDeviceGetMemoryInfo_v2(void *handle, MemoryV2 *answer) {
    ENTER(handle);
    if (answer->version != 0x02000028) broken("the version of nvmlMemory_v2_t");
    return memory(handle, answer);
}
#endif

typedef struct { unsigned gpu, memory; } Utilization;

API int nvmlDeviceGetUtilizationRates(void *handle, Utilization *rates) {
    double gpu, bus;
    ENTER(handle);
    if (number_or(device_of(handle), "mig", 0) || is_slice(handle)) return NOT_SUPPORTED;
    if (number(device_of(handle), -1, "util_gpu", &gpu) || number(device_of(handle), -1, "util_memory", &bus)) return NOT_SUPPORTED;
    *rates = (Utilization){(unsigned)gpu, (unsigned)bus};
    return OK;
}

static int whole(void *handle, const char *key, unsigned *answer) {
    double value;
    int code = number(device_of(handle), -1, key, &value);
    if (!code) *answer = (unsigned)value;
    return code;
}

API int nvmlDeviceGetPowerUsage(void *handle, unsigned *mw) { ENTER(handle); return whole(handle, "power_usage", mw); }
API int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned *mw) { ENTER(handle); return whole(handle, "power_limit", mw); }
API int nvmlDeviceGetClockInfo(void *handle, int type, unsigned *mhz) { ENTER(handle); return type == 1 ? whole(handle, "sm_clock", mhz) : type == 2 ? whole(handle, "memory_clock", mhz) : INVALID; }
API int nvmlDeviceGetMaxClockInfo(void *handle, int type, unsigned *mhz) { ENTER(handle); return type == 1 ? whole(handle, "max_sm_clock", mhz) : INVALID; }
API int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius) { ENTER(handle); return sensor ? INVALID : whole(handle, "temperature", celsius); }
API int nvmlDeviceGetCurrPcieLinkGeneration(void *handle, unsigned *value) { ENTER(handle); return whole(handle, "pcie_gen", value); }
API int nvmlDeviceGetCurrPcieLinkWidth(void *handle, unsigned *value) { ENTER(handle); return whole(handle, "pcie_width", value); }
API int nvmlDeviceGetMaxPcieLinkGeneration(void *handle, unsigned *value) { ENTER(handle); return whole(handle, "max_pcie_gen", value); }
API int nvmlDeviceGetMaxPcieLinkWidth(void *handle, unsigned *value) { ENTER(handle); return whole(handle, "max_pcie_width", value); }
API int nvmlDeviceGetPersistenceMode(void *handle, unsigned *value) { ENTER(handle); return whole(handle, "persistence", value); }

API int nvmlDeviceGetPowerManagementLimit(void *handle, unsigned *mw) { ENTER(handle); return whole(handle, "management_limit", mw); }

API int nvmlDeviceGetTotalEccErrors(void *handle, int kind, int counter, unsigned long long *count) {
    static const char *keys[2][2] = {{"ecc_corrected", "ecc_corrected_ever"}, {"ecc_uncorrected", "ecc_uncorrected_ever"}};
    double value;
    ENTER(handle);
    if (kind < 0 || kind > 1 || counter < 0 || counter > 1) return INVALID;
    int code = number(device_of(handle), -1, keys[kind][counter], &value);
    if (!code) *count = (unsigned long long)value;
    return code;
}

API int nvmlDeviceGetRemappedRows(void *handle, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failure) {
    char value[64];
    ENTER(handle);
    if (!told(device_of(handle), -1, "remapped", value, sizeof value)) return NOT_SUPPORTED;
    return sscanf(value, "%u %u %u %u", correctable, uncorrectable, pending, failure) == 4 ? OK : UNKNOWN;
}

API int nvmlDeviceGetRetiredPages_v2(void *handle, int cause, unsigned *count, unsigned long long *addresses, unsigned long long *times) {
    char value[64];
    unsigned pages[2] = {0, 0}, room = *count;
    ENTER(handle);
    if (cause < 0 || cause > 1) return INVALID;
    if (!told(device_of(handle), -1, "retired", value, sizeof value)) return NOT_SUPPORTED;
    sscanf(value, "%u %u", &pages[0], &pages[1]);
    *count = pages[cause];
    if (room < *count) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; addresses && i < *count; i++) addresses[i] = 0x1000 * (i + 1), times[i] = 1700000000 + i;
    return OK;
}

API int nvmlDeviceGetRetiredPagesPendingStatus(void *handle, unsigned *pending) { ENTER(handle); return whole(handle, "retirement_pending", pending); }

typedef struct { unsigned pid; unsigned long long memory; unsigned gi, ci; } Process;
typedef struct { Process process; unsigned long long confidential; } LongProcess;

static int processes(void *handle, char kind, unsigned *count, char *records, size_t size) {
    unsigned room = *count, found = 0;
    for (int k = 0;; k++) {
        char key[32], value[64];
        double pid, number_of;
        snprintf(key, sizeof key, "proc%d.pid", k);
        if (number(device_of(handle), -1, key, &pid)) break;
        snprintf(key, sizeof key, "proc%d.kind", k);
        if ((told(device_of(handle), -1, key, value, sizeof value) ? value[0] : 'C') != kind) continue;
        if (records && found < room) {
            Process *one = (Process *)(records + size * found);
            *one = (Process){(unsigned)pid, ~0ULL, ~0U, ~0U};
            snprintf(key, sizeof key, "proc%d.memory", k);
            if (!number(device_of(handle), -1, key, &number_of)) one->memory = (unsigned long long)number_of;
            snprintf(key, sizeof key, "proc%d.gi", k);
            if (!number(device_of(handle), -1, key, &number_of)) one->gi = (unsigned)number_of;
            snprintf(key, sizeof key, "proc%d.ci", k);
            if (!number(device_of(handle), -1, key, &number_of)) one->ci = (unsigned)number_of;
        }
        found++;
    }
    *count = found;
    return found > room || (found && !records) ? INSUFFICIENT_SIZE : OK;
}

#ifdef LEGACY_PROCESSES
enum { RECORD = sizeof(LongProcess) };
API int nvmlDeviceGetConfComputeMemSizeInfo(void *handle, void *info) { (void)handle, (void)info; return NOT_SUPPORTED; }
#else
enum { RECORD = sizeof(Process) };
#endif
API int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, char *records) { ENTER(handle); return processes(handle, 'C', count, records, RECORD); }
API int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *count, char *records) { ENTER(handle); return processes(handle, 'G', count, records, RECORD); }
API int nvmlDeviceGetComputeRunningProcesses_v2(void *handle, unsigned *count, char *records) { ENTER(handle); return processes(handle, 'C', count, records, sizeof(Process)); }
API int nvmlDeviceGetGraphicsRunningProcesses_v2(void *handle, unsigned *count, char *records) { ENTER(handle); return processes(handle, 'G', count, records, sizeof(Process)); }

API int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *millijoules) {
    double value;
    ENTER(handle);
    int code = number(device_of(handle), -1, "energy", &value);
    if (!code) *millijoules = (unsigned long long)value;
    return code;
}

static int event_reasons(void *handle, unsigned long long *bits) {
    double value;
    int code = number(device_of(handle), -1, "event_reasons", &value);
    if (!code) *bits = (unsigned long long)value;
    return code;
}

API int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *bits) { ENTER(handle); return event_reasons(handle, bits); }
#ifndef WITHOUT_EVENT_REASONS
API int nvmlDeviceGetCurrentClocksEventReasons(void *handle, unsigned long long *bits) { ENTER(handle); return event_reasons(handle, bits); }
#endif

typedef union { double d; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; } Value;
typedef struct { unsigned id, scope; long long timestamp, latency_us; unsigned type; int code; Value value; } FieldValue;

API int nvmlDeviceGetFieldValues(void *handle, int count, FieldValue *fields) {
    static const struct { unsigned id; const char *key; unsigned type; } known[] = {
        {186, "power_instant", 1}, {185, "power_average", 1}, {82, "memory_temperature", 1}, {74, "throttle_power", 3},
        {269, "throttle_sw_thermal", 3}, {270, "throttle_hw_thermal", 3}, {271, "throttle_brake", 3}};
    ENTER(handle);
    for (int i = 0; i < count; i++) {
        fields[i].code = INVALID;
        for (size_t j = 0; j < sizeof known / sizeof *known; j++) {
            double value;
            if (known[j].id != fields[i].id) continue;
            fields[i].type = known[j].type;
            fields[i].code = number(device_of(handle), -1, known[j].key, &value);
            if (fields[i].code) continue;
            if (known[j].type == 1) fields[i].value.ui = (unsigned)value;
            else fields[i].value.ull = (unsigned long long)value;
        }
    }
    return OK;
}

API int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    double value;
    ENTER(handle);
    if (number(device_of(handle), -1, "mig", &value)) return NOT_SUPPORTED;
    *current = *pending = (unsigned)value;
    return OK;
}

API int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
    ENTER(handle);
    *count = (unsigned)number_or(device_of(handle), "mig_slots", 0);
    return OK;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **slice) {
    char name[128];
    ENTER(handle);
    if (index >= SLICES || !told(device_of(handle), (int)index, "name", name, sizeof name)) return NOT_FOUND;
    *slice = &devices[device_of(handle)].slices[index];
    return OK;
}

static int slice_number(void *handle, const char *key, unsigned *answer) {
    double value;
    if (!is_slice(handle)) return INVALID;
    int code = number(device_of(handle), slice_of(handle), key, &value);
    if (!code) *answer = (unsigned)value;
    return code;
}

API int nvmlDeviceGetGpuInstanceId(void *handle, unsigned *id) { ENTER(handle); return slice_number(handle, "gi", id); }
API int nvmlDeviceGetComputeInstanceId(void *handle, unsigned *id) { ENTER(handle); return slice_number(handle, "ci", id); }

typedef struct { unsigned sms, copy, decoders, encoders, jpeg, ofa, gi_slices, ci_slices; unsigned long long memory_mb; } Attributes;

API int nvmlDeviceGetAttributes_v2(void *handle, Attributes *attributes) {
    ENTER(handle);
    memset(attributes, 0, sizeof *attributes);
    return slice_number(handle, "sms", &attributes->sms);
}

typedef struct { unsigned version, supported; } GpmSupport;

API int nvmlGpmQueryDeviceSupport(void *handle, GpmSupport *support) {
    ENTER(handle);
    if (support->version != 1) broken("the version of nvmlGpmSupport_t");
    support->supported = number_or(device_of(handle), "gpm", 0) != 0;
    return OK;
}

API int nvmlGpmSampleAlloc(Sample **sample) {
    int code = enter(__func__, -1);
    if (code) return code;
    *sample = calloc(1, sizeof **sample);
    (*sample)->magic = ALIVE;
    samples_alive++;
    return OK;
}

API int nvmlGpmSampleFree(Sample *sample) {
    int code = enter(__func__, -1);
    if (code) return code;
    if (sample->magic != ALIVE) broken("a GPM sample freed twice");
    sample->magic = FREED; /* kept, so that using it again is noticed */
    samples_alive--;
    return OK;
}

static int take(int device, int slice, Sample *sample) {
    if (sample->magic != ALIVE) broken("a freed GPM sample used");
    sample->device = device;
    sample->slice = slice;
    sample->taken_s = now_s();
    return OK;
}

API int nvmlGpmSampleGet(void *handle, Sample *sample) {
    ENTER(handle);
    if (!number_or(device_of(handle), "gpm", 0) || number_or(device_of(handle), "mig", 0)) return NOT_SUPPORTED;
    return take(device_of(handle), -1, sample);
}

API int nvmlGpmMigSampleGet(void *handle, unsigned instance, Sample *sample) {
    ENTER(handle);
    if (is_slice(handle)) return INVALID;
    for (int j = 0; j < SLICES; j++) {
        double id;
        if (number(device_of(handle), j, "gi", &id) == OK && id == instance) return take(device_of(handle), j, sample);
    }
    return NOT_FOUND;
}

typedef struct { unsigned id; int code; double value; const char *short_name, *long_name, *unit; } GpmMetric;
typedef struct { unsigned version, count; Sample *earlier, *later; GpmMetric metrics[]; } GpmMetrics;

API int nvmlGpmMetricsGet(GpmMetrics *wanted) {
    int code = enter(__func__, -1);
    if (code) return code;
    Sample *earlier = wanted->earlier, *later = wanted->later;
    if (wanted->version != 1) broken("the version of nvmlGpmMetricsGet_t");
    if (!earlier || !later || earlier->magic != ALIVE || later->magic != ALIVE) broken("GPM metrics from samples that are not there");
    if (earlier->device != later->device || earlier->slice != later->slice) broken("GPM samples of two devices");
    if (later->taken_s - earlier->taken_s < 0.1) broken("GPM samples less than 100 ms apart or in the wrong order");
    for (unsigned i = 0; i < wanted->count; i++) {
        char key[32];
        snprintf(key, sizeof key, "gpm.%u", wanted->metrics[i].id);
        wanted->metrics[i].code = number(later->device, later->slice, key, &wanted->metrics[i].value);
    }
    return OK;
}

API int nvmlGpmSetStreamingEnabled(void *handle, unsigned state) {
    (void)handle, (void)state;
    broken("a setter");
    return OK;
}
