-- How limits are counted in Redis, as meters.py does it in memory. gateway/ledger/book.lua stands in front of it.
--
-- KEYS, all with the hash tag of the team:
--   meters  hash: id of a limit -> 'r' and when the bucket is full (seconds since 1970)
--                                  'p' and units used, when the period ends, its name
--                                  'c' and how many there are
--                 '.tended' -> when a gateway came last; '.grace' -> until when no lease ends
--   held    hash: id of a reservation -> msgpack of {charges, booking}: what was reserved, what to book if it is lost
--   ends    sorted set: id of a reservation -> when its lease ends
--   ended   sorted set: id of a reservation that was lost, or settled without having been held -> until when to know
--   writer  number of the last operation of one gateway that was carried out
-- ARGV: what to do; msgpack of {now (0: ask Redis), lease_s}; more, as the functions at the end say.
-- A charge is {id, kind ('r', 'p', 'c'), amount, burst, units, period, period_left_s, units should it be lost}.

local METERS, HELD, ENDS, ENDED, WRITER = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ID, KIND, AMOUNT, BURST, UNITS, PERIOD, LEFT_S, LIKELY = 1, 2, 3, 4, 5, 6, 7, 8
local SLACK_S, SLACK_UNITS, SKEW_S, CONCURRENT_WAIT_S = 1e-6, 1e-9, 60, 1 -- as in meters.py
local KEPT_S = 35 * 86400 -- what nobody touches: longer than any month
local ENDED_KEPT_S = 3600 -- longer than a command can be on its way
local WRITER_KEPT_S = 7 * 86400
local REAPED = 20 -- at once, so that nobody waits long for a gateway that died
local SWEPT = 32
local IDLE_S = 3600

local now, lease_s = unpack(cmsgpack.unpack(ARGV[2]))
if now == 0 then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1000000
end

local function exact(number)
  return string.format('%.17g', number)
end

-- ---- meters: each is read once and written once, however much is done in between

local meters, changed = {}, {}

local function load(charges)
  local ids = {}
  for _, charge in ipairs(charges) do
    if not meters[charge[ID]] then
      ids[#ids + 1] = charge[ID]
    end
  end
  if #ids == 0 then
    return
  end
  local texts = redis.call('HMGET', METERS, unpack(ids))
  for i, id in ipairs(ids) do
    local text = texts[i] or ''
    local kind, rest = string.sub(text, 1, 1), string.sub(text, 2)
    local meter = {value = 0, ends = 0, period = ''}
    if kind == 'p' then
      local value, ends, period = string.match(rest, '^(%S+) (%S+) (.*)$')
      meter = {value = tonumber(value), ends = tonumber(ends), period = period}
    elseif kind ~= '' then
      meter.value = tonumber(rest)
    end
    meters[id] = meter
  end
end

local function text_of(charge, meter)
  local text = charge[KIND] .. exact(meter.value)
  if charge[KIND] == 'p' then
    text = text .. ' ' .. exact(meter.ends) .. ' ' .. meter.period
  end
  return text
end

local function save()
  local fields, gone = {}, {}
  for id, charge in pairs(changed) do
    if charge[KIND] == 'c' and meters[id].value <= 0 then
      gone[#gone + 1] = id
    else
      fields[#fields + 1] = id
      fields[#fields + 1] = text_of(charge, meters[id])
    end
  end
  if #fields > 0 then
    redis.call('HSET', METERS, unpack(fields))
  end
  if #gone > 0 then
    redis.call('HDEL', METERS, unpack(gone))
  end
  redis.call('EXPIRE', METERS, KEPT_S)
  changed = {}
end

-- The meter of a charge, of the period in which it counts.
local function meter_of(charge)
  local meter = meters[charge[ID]]
  if charge[KIND] == 'p' and meter.period ~= charge[PERIOD] and meter.ends <= now + SKEW_S then
    meter.value, meter.ends, meter.period = 0, now + charge[LEFT_S], charge[PERIOD]
  end
  return meter
end

-- 0: there is room.
local function wait_of(charge)
  local meter, units, amount = meter_of(charge), charge[UNITS], charge[AMOUNT]
  if units <= 0 then
    return 0
  end
  if units > amount + SLACK_UNITS then
    return math.huge
  end
  if charge[KIND] == 'r' then
    local lacking_s = (math.min(units, charge[BURST]) - charge[BURST]) * 60 / amount + math.max(meter.value - now, 0)
    return lacking_s > SLACK_S and lacking_s or 0
  end
  if meter.value + units <= amount + SLACK_UNITS then
    return 0
  end
  if charge[KIND] == 'c' then
    return CONCURRENT_WAIT_S
  end
  return math.max(meter.period == charge[PERIOD] and charge[LEFT_S] or meter.ends - now, SLACK_S)
end

local function take(charge)
  local meter = meter_of(charge)
  if charge[KIND] == 'r' then
    meter.value = math.max(meter.value, now) + charge[UNITS] * 60 / charge[AMOUNT]
  else
    meter.value = meter.value + charge[UNITS]
  end
  changed[charge[ID]] = charge
end

-- What *charge* held is now *units*.
local function replace(charge, units)
  local meter = meters[charge[ID]]
  if charge[KIND] == 'r' then
    if meter.value == 0 then
      meter.value = now -- swept, as it was full long ago
    end
    meter.value = meter.value + (units - charge[UNITS]) * 60 / charge[AMOUNT]
  elseif charge[KIND] == 'c' then
    meter.value = math.max(meter.value - charge[UNITS], 0)
  elseif meter.period == charge[PERIOD] then
    meter.value = math.max(meter.value + units - charge[UNITS], 0)
  else
    return
  end
  changed[charge[ID]] = charge
end

-- remaining, reset_s, remaining, reset_s ... of all charges, behind what is in *reply*
local function with_levels(reply, charges)
  for _, charge in ipairs(charges) do
    local meter = meter_of(charge)
    if charge[KIND] == 'r' then
      local full_in_s = math.max(meter.value - now, 0)
      reply[#reply + 1] = math.max(charge[BURST] - full_in_s * charge[AMOUNT] / 60, 0)
      reply[#reply + 1] = full_in_s
    else
      reply[#reply + 1] = math.max(charge[AMOUNT] - meter.value, 0)
      reply[#reply + 1] = charge[LEFT_S]
    end
  end
  return cmsgpack.pack(reply)
end

-- ---- reservations

local function is_ended(reservation)
  return redis.call('ZSCORE', ENDED, reservation)
end

local function remember_ended(reservation)
  redis.call('ZADD', ENDED, exact(now + ENDED_KEPT_S), reservation)
  redis.call('EXPIRE', ENDED, 2 * ENDED_KEPT_S)
end

local function hold(reservation, charges, booking)
  for _, charge in ipairs(charges) do
    take(charge)
    if charge[KIND] == 'p' then
      charge[PERIOD] = meters[charge[ID]].period -- which a gateway with another calendar may have begun
    end
  end
  redis.call('HSET', HELD, reservation, cmsgpack.pack({charges, booking}))
  redis.call('ZADD', ENDS, exact(now + lease_s), reservation)
  redis.call('EXPIRE', HELD, KEPT_S)
  redis.call('EXPIRE', ENDS, KEPT_S)
end

-- What was held, which is no longer; nil if it was not.
local function let_go(reservation)
  local held = redis.call('HGET', HELD, reservation)
  if held then
    redis.call('HDEL', HELD, reservation)
    redis.call('ZREM', ENDS, reservation)
    return unpack(cmsgpack.unpack(held))
  end
end

-- *used*: id of a limit -> units; of limits that are not in it nothing was used.
local function settle(charges, used)
  load(charges)
  for _, charge in ipairs(charges) do
    replace(charge, used[charge[ID]] or 0)
  end
end

local function by_id(charges)
  local units = {}
  for _, charge in ipairs(charges) do
    units[charge[ID]] = charge[UNITS]
  end
  return units
end

-- What a budget reserves is the most that is possible: of a request that is lost, what was likely is charged.
local function likely_by_id(charges)
  local units = {}
  for _, charge in ipairs(charges) do
    units[charge[ID]] = charge[LIKELY] or charge[UNITS] -- a former gateway said no more than the latter
  end
  return units
end

-- Gateways that are alive come every third of a lease. Where none came for longer, Redis was away, and they get a lease
-- to say that they are there.
local function reap()
  local known = redis.call('HMGET', METERS, '.tended', '.grace')
  local tended, grace = tonumber(known[1] or nil), tonumber(known[2] or nil)
  if tended and now - tended > lease_s / 2 then
    grace = now + lease_s
    redis.call('HSET', METERS, '.grace', exact(grace))
  end
  if not tended or now - tended > lease_s / 10 then
    redis.call('HSET', METERS, '.tended', exact(now))
    redis.call('EXPIRE', METERS, KEPT_S)
  end
  if grace and now < grace then
    return 0
  end
  local lost = redis.call('ZRANGEBYSCORE', ENDS, '-inf', exact(now), 'LIMIT', 0, REAPED)
  for _, reservation in ipairs(lost) do
    local charges, booking = let_go(reservation)
    if charges then
      settle(charges, likely_by_id(charges))
      ledger_book(unpack(booking))
      remember_ended(reservation)
    end
    redis.call('ZREM', ENDS, reservation)
  end
  return #lost
end

-- ---- what gateways ask for

-- ARGV: id, msgpack of {charges, booking should it be lost}.
-- Returns msgpack of {granted (1 or 0), index of the binding charge, its wait (-1: for ever), levels}.
local function reserve(reservation, packed)
  local charges, booking = unpack(cmsgpack.unpack(packed))
  load(charges)
  if redis.call('HEXISTS', HELD, reservation) == 1 then
    return with_levels({1, 0, 0}, charges)
  end
  local binding, wait_s = 0, 0
  for i, charge in ipairs(charges) do
    local each_s = wait_of(charge)
    if each_s > wait_s then
      binding, wait_s = i - 1, each_s
    end
  end
  if wait_s > 0 or is_ended(reservation) then
    return with_levels({0, binding, wait_s == math.huge and -1 or wait_s}, charges)
  end
  hold(reservation, charges, booking)
  return with_levels({1, 0, 0}, charges)
end

local operations = {}

-- Replace what was reserved by what was used, and book it. What was never held here is charged, room or no room.
function operations.settle(reservation, charges, booking)
  local reserved = let_go(reservation)
  if reserved then
    settle(reserved, by_id(charges))
  elseif is_ended(reservation) then
    return
  else
    load(charges)
    for _, charge in ipairs(charges) do
      if charge[KIND] ~= 'c' then
        take(charge)
      end
    end
    remember_ended(reservation)
  end
  ledger_book(unpack(booking))
end

-- Give everything back. Should the reservation be still on its way, it will not be held.
function operations.drop(reservation)
  local reserved = let_go(reservation)
  if reserved then
    settle(reserved, {})
  else
    remember_ended(reservation)
  end
end

-- Hold what was granted while Redis was away, room or no room.
function operations.adopt(reservation, charges, booking)
  if redis.call('HEXISTS', HELD, reservation) == 0 and not is_ended(reservation) then
    load(charges)
    hold(reservation, charges, booking)
  end
end

function operations.book(_, _, booking)
  ledger_book(unpack(booking))
end

-- ARGV: msgpack of {number of the first, {what, reservation, charges, booking}, ...}. None is carried out twice.
local function carry_out(packed)
  local all = cmsgpack.unpack(packed)
  local done = tonumber(redis.call('GET', WRITER) or 0)
  local last = all[1] + #all - 2
  for i = 2, #all do
    if all[1] + i - 2 > done then
      local what, reservation, charges, booking = unpack(all[i])
      operations[what](reservation, charges, booking)
    end
  end
  if last > done then
    redis.call('SET', WRITER, exact(last), 'EX', WRITER_KEPT_S)
  end
  return last
end

-- Forget limits that say nothing any more, some at a time.
local function sweep(cursor)
  local found = redis.call('HSCAN', METERS, cursor, 'COUNT', SWEPT)
  for i = 1, #found[2], 2 do
    local id, text = found[2][i], found[2][i + 1]
    local ends = tonumber(string.match(text, '^r(%S+)$') or string.match(text, '^p%S+ (%S+) '))
    if ends and ends < now - IDLE_S and not meters[id] then
      redis.call('HDEL', METERS, id)
    end
  end
  return found[1]
end

-- ARGV: cursor of the last sweep, ids of reservations that are alive.
-- Returns how many were lost, how many are held, and the next cursor.
local function tend(lost, cursor, ...)
  for _, reservation in ipairs({...}) do
    redis.call('ZADD', ENDS, 'XX', exact(now + lease_s), reservation)
  end
  redis.call('ZREMRANGEBYSCORE', ENDED, '-inf', exact(now))
  return {lost, redis.call('ZCARD', ENDS), sweep(cursor)}
end

-- ARGV: msgpack of charges, all of periods. Returns msgpack of what is used or reserved of each.
local function spent(packed)
  local charges, values = cmsgpack.unpack(packed), {}
  load(charges)
  for i, charge in ipairs(charges) do
    values[i] = meter_of(charge).value
  end
  return cmsgpack.pack(values)
end

-- ARGV: msgpack of charges, all of periods. So much less is used.
local function give(packed)
  local charges = cmsgpack.unpack(packed)
  load(charges)
  for _, charge in ipairs(charges) do
    local meter = meter_of(charge)
    meter.value = math.max(meter.value - charge[UNITS], 0)
    changed[charge[ID]] = charge
  end
  return 1
end

local what, answer = ARGV[1], nil
if what == 'tend' then
  -- Those that say that they are alive are not lost, however late they say so.
  answer = tend(0, unpack(ARGV, 3))
  answer[1] = reap()
else
  reap()
  answer = what == 'reserve' and reserve(ARGV[3], ARGV[4]) or what == 'carry_out' and carry_out(ARGV[3])
    or what == 'spent' and spent(ARGV[3]) or what == 'give' and give(ARGV[3])
end
if next(changed) then
  save()
end
return answer
