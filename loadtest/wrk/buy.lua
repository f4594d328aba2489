-- Purchases, each by a fresh buyer.
--
--   seckill tokens --users 300000 --out tokens.csv
--   wrk -t2 -c64 -d10s --latency -s loadtest/wrk/buy.lua \
--       http://127.0.0.1:8080/api/vouchers/ID/orders -- tokens.csv 2 [detail] [patient]
--
-- Arguments: the CSV `user_id,token`; the number of wrk's threads, again (a script cannot ask);
-- `detail` counts every status. Without `detail` the answers are counted in two classes, below
-- 400 and not, which wrk does by itself: counting each status calls into Lua for every answer,
-- which takes a good part of the client's processor time, and the server's where they share one.
-- `patient` obeys the server's `Retry-After: 1`: a connection that was answered 503 rests for a
-- second. (One connection is as good as another, so the next one to send rests in its place.)
--
-- The ID may be several, `/api/vouchers/7,8,9/orders`: each request buys the next voucher.
--
-- Each thread reads a share of the file of its own, in order, while it runs; nothing is held in
-- memory, so a file may be of any size. A thread that comes to the end of its share begins it
-- again: these are buyers who come a second time, their number is reported as `repeats`, and for
-- confirmed orders such a measurement is void. Mint more tokens then.
--
-- wrk counts answers only. Up to one request per connection is still under way when it stops, so
-- the database may hold that many more orders than are reported here, and never fewer.

-- luacheck: globals wrk setup init request response delay done
-- wrk sets the first of these and reads the others from outside, so they are no locals.
-- luacheck: globals number repeats statuses expected_threads

local threads = {}
local tokens, share_begin, share_end, position
local before = {} -- what stands before the token in a request, for each voucher
local resting = 0 -- answers 503 for which no connection rests yet
local sent, wrapped = 0, false

function setup(thread)
   thread:set("number", #threads)
   table.insert(threads, thread)
end

-- To the first line that begins at or after the share's beginning: the one the boundary cuts
-- belongs to the thread before. A boundary between two lines cuts none, hence the step back.
local function rewind()
   position = math.max(share_begin - 1, 0)
   tokens:seek("set", position)
   position = position + #(tokens:read("*l") or "") + 1 -- also drops the header line of the file
end

-- A line belongs to the share in which it begins.
local function next_token()
   if position < share_end then
      local line = tokens:read("*l")
      if line then
         position = position + #line + 1
         local token = line:match(",([^%s,\"]+)")
         if token then
            return token
         end
         error("not a line of `user_id,token`: " .. line)
      end
   end
   if sent == 0 then
      error("no tokens in a thread's share of the file")
   end
   wrapped = true
   rewind()
   return next_token()
end

function init(args)
   local path, count = args[1], tonumber(args[2])
   if not path or not count then
      error("usage: wrk ... -s buy.lua URL -- TOKENS.csv THREADS [detail] [patient]")
   end
   tokens = assert(io.open(path, "r"))
   local size = tokens:seek("end")
   share_begin = math.floor(size * number / count)
   share_end = math.floor(size * (number + 1) / count)
   expected_threads, repeats = count, 0
   rewind()

   local head, ids, tail = wrk.path:match("^(.*/)([%d,]+)(/[^/]*)$")
   for id in (ids or ""):gmatch("%d+") do
      table.insert(before, table.concat({
         "POST " .. head .. id .. tail .. " HTTP/1.1\r\n",
         "Host: " .. wrk.host .. ":" .. wrk.port .. "\r\n",
         "Content-Length: 0\r\n",
         "Authorization: Bearer ",
      }))
   end
   if #before == 0 then
      error("no voucher in the path " .. wrk.path)
   end

   local words = {}
   for index = 3, #args do
      words[args[index]] = true
   end
   statuses = words.detail and {}
   if words.detail or words.patient then
      response = function(status)
         if words.detail then
            statuses[status] = (statuses[status] or 0) + 1
         end
         if status == 503 then
            resting = resting + 1
         end
      end
   end
   if words.patient then
      delay = function()
         if resting == 0 then
            return 0
         end
         resting = resting - 1
         return 1000
      end
   end
end

function request()
   local token = next_token()
   sent = sent + 1
   if wrapped then
      repeats = repeats + 1
   end
   return before[sent % #before + 1] .. token .. "\r\n\r\n"
end

function done(summary, latency)
   local sum, by_status = 0, {}
   for _, thread in ipairs(threads) do
      sum = sum + thread:get("repeats")
      for status, times in pairs(thread:get("statuses") or {}) do
         by_status[status] = (by_status[status] or 0) + times
      end
   end
   local errors = summary.errors
   local seconds = summary.duration / 1e6
   local below_400 = summary.requests - errors.status

   print("")
   print(string.format("answers       %d, %.0f a second", summary.requests, summary.requests / seconds))
   print(string.format("below 400     %d, %.0f a second", below_400, below_400 / seconds))
   print(string.format("400 and above %d, %.0f a second", errors.status, errors.status / seconds))
   local order = {}
   for status in pairs(by_status) do
      table.insert(order, status)
   end
   table.sort(order)
   local told = ""
   for _, status in ipairs(order) do
      print(string.format("  status %d  %d", status, by_status[status]))
      told = told .. string.format(" status_%d=%d", status, by_status[status])
   end
   print(string.format("socket errors connect %d, read %d, write %d, time-out %d",
      errors.connect, errors.read, errors.write, errors.timeout))
   print(string.format("latency       p50 %.2f ms, p95 %.2f ms, p99 %.2f ms, max %.2f ms",
      latency:percentile(50) / 1e3, latency:percentile(95) / 1e3,
      latency:percentile(99) / 1e3, latency.max / 1e3))
   if sum > 0 then
      print(string.format("REPEATS       %d requests came from buyers who had come before: mint more tokens", sum))
   end
   if #threads ~= threads[1]:get("expected_threads") then
      print(string.format("THREADS       wrk ran %d, the script was told %d: some tokens were never used",
         #threads, threads[1]:get("expected_threads")))
   end

   -- The same for programs, in one line.
   print(string.format("RESULT duration_us=%d requests=%d below_400=%d from_400=%d socket_errors=%d "
      .. "repeats=%d p50_us=%d p99_us=%d max_us=%d%s",
      summary.duration, summary.requests, below_400, errors.status,
      errors.connect + errors.read + errors.write + errors.timeout, sum,
      latency:percentile(50), latency:percentile(99), latency.max, told))
end
