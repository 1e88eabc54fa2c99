-- KEYS: lines, claims, owners, returned, results, ranges. ARGV: owner, count, now, until, worker.
if redis.call('HEXISTS', KEYS[1], 'total') == 0 then
    return {}
end
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
local ended = {}
for _, owner in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', ARGV[3])) do
    ended[owner] = true
    redis.call('ZREM', KEYS[3], owner)
end
if next(ended) then
    local claims = redis.call('HGETALL', KEYS[2])
    for i = 1, #claims, 2 do
        if ended[claims[i + 1]] then
            redis.call('HDEL', KEYS[2], claims[i])
            redis.call('ZADD', KEYS[4], claims[i], claims[i])
        end
    end
end
local count = tonumber(ARGV[2])
local lines = {}
local returned = redis.call('ZRANGE', KEYS[4], 0, count - 1)
for _, line in ipairs(returned) do
    redis.call('ZREM', KEYS[4], line)
    lines[#lines + 1] = tonumber(line)
end
local function bounds(text)
    local first, stop = string.match(text, '^(%d+):(%d+)$')
    return tonumber(first), tonumber(stop)
end
local function keep(worker, first, stop)
    if first < stop then
        redis.call('HSET', KEYS[6], worker, first .. ':' .. stop)
    else
        redis.call('HDEL', KEYS[6], worker)
    end
end
-- Return the range of the worker. Without one, return a range that has no worker, or a part of the largest range.
local function taken(worker)
    local own = redis.call('HGET', KEYS[6], worker)
    if own then
        return bounds(own)
    end
    local free = redis.call('HGET', KEYS[6], '')
    if free then
        redis.call('HDEL', KEYS[6], '')
        return bounds(free)
    end
    local ranges = redis.call('HGETALL', KEYS[6])
    local from, first, stop
    for i = 1, #ranges, 2 do
        local a, b = bounds(ranges[i + 1])
        if not from or b - a > stop - first or (b - a == stop - first and a < first) then
            from, first, stop = ranges[i], a, b
        end
    end
    if not from then
        return nil
    end
    local middle = first + math.floor((stop - first) / 2)
    keep(from, first, middle)
    return middle, stop
end
if #lines < count then
    local first, stop = taken(ARGV[5])
    if first then
        while #lines < count and first < stop do
            lines[#lines + 1] = first
            first = first + 1
        end
        keep(ARGV[5], first, stop)
    end
end
for _, line in ipairs(lines) do
    redis.call('HSET', KEYS[2], line, ARGV[1])
end
return lines
